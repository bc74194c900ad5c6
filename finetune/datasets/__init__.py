"""Pictures of any source as shards of records, checked, counted and looked at."""
