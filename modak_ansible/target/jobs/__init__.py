"""Jobs: submitted exactly once, watched, judged, acted on."""
