"""Tools that a player calls: the protocol of a tool, the forms in which a player writes a call, and the built-in tools.

`gradus.environments.tools.Tools` plays episodes with them.
"""

from gradus.tools.tool import FunctionTool, Opened, Result, Sharing, Tool, tool

__all__ = ["FunctionTool", "Opened", "Result", "Sharing", "Tool", "tool"]
