"""What training costs here, beside what a user would run instead: ``python -m bench --help``.

No part of the package: it imports fedloom as any user does, and the peers (extra ``bench``) only where they run.
"""
