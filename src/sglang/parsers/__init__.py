"""What a model wrote → text, thoughts and tool calls. Pure: strings in, events out, at any chunk boundary the same."""
