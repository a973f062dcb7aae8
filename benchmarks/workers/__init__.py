"""Workers that handle records in parallel, beside a plain loop."""
