"""Language models: clients, fakes, and what meters, caps, throttles and retries them."""
