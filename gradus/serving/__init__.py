"""`gradus serve`: a server for a model, at an OpenAI-compatible address on loopback. The library's own engine samples.

The module `fields` reads the JSON of a request, and `asked` makes jobs from it. `runner` advances all sequences in one batch in its own thread. `pieces`
turns tokens into text that may be sent, and `replies` writes the answers. `app` has the routes, `guard` checks every request, and `server` opens the socket
and ends the process.
"""
