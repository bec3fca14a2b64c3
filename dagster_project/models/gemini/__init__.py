"""Google's Gemini service: vectors, answers, jobs of the Batch API, and which models it serves."""
