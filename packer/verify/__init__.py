"""Verify a pack, compare it with its source, and repair it."""

from packer.verify.checking import VerifyOptions, VerifyResult, verify_pack

__all__ = ["VerifyOptions", "VerifyResult", "verify_pack"]
