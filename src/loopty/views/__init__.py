"""History → rows: what people ask of a record, as data. The standard library and the core only."""
