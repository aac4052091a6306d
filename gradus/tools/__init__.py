"""Tools that a player calls: what a tool is, the forms in which a player writes a call, and the tools that are built in.

`gradus.environments.tools.Tools` plays episodes with them.
"""

from gradus.tools.tool import FunctionTool, Opened, Result, Tool, tool

__all__ = ["FunctionTool", "Opened", "Result", "Tool", "tool"]
