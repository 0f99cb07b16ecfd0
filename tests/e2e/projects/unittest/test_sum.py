import unittest


class Sum(unittest.TestCase):
    def test_passes(self):
        self.assertEqual(1 + 1, 2)

    def test_fails(self):
        self.assertEqual(1 + 1, 3, "wrong")

    @unittest.skip("not now")
    def test_is_skipped(self):
        pass

    def test_errors(self):
        raise RuntimeError("no luck")

    def test_described(self):
        """What a person calls it."""
