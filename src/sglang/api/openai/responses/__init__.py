"""/v1/responses: conversations that the server can remember."""
