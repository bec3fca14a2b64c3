"""How good a search is: ground truth, metrics, intervals, report; nothing here searches."""
