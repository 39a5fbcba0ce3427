"""Turn an image folder into sequential shards with a batch-level index, and train from them.

Converting: `packer.convert`. Reading: `packer.reader`. Writing from code: `packer.writer`.
Importing this package imports nothing else.
"""

__version__ = "0.1.0"
