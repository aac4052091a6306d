"""`gradus serve`: a model behind an OpenAI-compatible address on loopback, over the library's own engine.

`fields` reads a request's JSON, `asked` makes jobs of it, `runner` advances all sequences in one batch on its own thread, `pieces` turns
tokens into text that may be sent, `replies` writes the answers, `app` holds the routes, `guard` the checks of every request, `server` the
socket and the end of the process.
"""
