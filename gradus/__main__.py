"""`python -m gradus` is the command line."""

import sys

from gradus.cli.main import main

sys.exit(main())
