"""Whether a pack is whole, whether it holds its source, and how it is repaired."""

from packer.verify.checking import VerifyOptions, VerifyResult, verify_pack

__all__ = ["VerifyOptions", "VerifyResult", "verify_pack"]
