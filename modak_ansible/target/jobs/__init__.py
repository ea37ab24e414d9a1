"""Jobs: submitted exactly once, watched, judged, acted upon."""
