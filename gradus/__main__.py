"""`python -m gradus` is the command line."""

import sys

from gradus.cli import main

sys.exit(main())
