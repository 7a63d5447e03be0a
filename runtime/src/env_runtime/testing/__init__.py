"""Tests that every environment passes, and a scripted model.

suite            the test classes that nemo_gym/tests/test_conformance.py takes over
fixtures         the server in process, and clients of it
verifier         the cases of `gym env test`
scripted_model   a model that follows plans; needs no pytest
"""
