"""Everything before a deployment: modak plan, diff, validate, tune, package and schema."""
