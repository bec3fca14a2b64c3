"""How good the search is: ground truth, metrics, intervals, report."""
