"""Language models: clients and fakes, with metering, caps, throttling and retries."""
