"""What the rules of scripts/mutation find in a few lines, and what they leave alone."""
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "scripts"))
from mutation import campaign, rules, sample  # noqa: E402


def found(text):
    body = "int f(int a, int b) {\n" + text + "\n}\n"
    return {(place.rule, place.before, place.after) for place in rules.places("x/y.cpp", body)}


class Rules(unittest.TestCase):
    def expect(self, text, *expected):
        for one in expected:
            self.assertIn(one, found(text))

    def test_comparisons(self):
        self.expect("if (a + 1 < b && c) return;", ("comparison turned", "a + 1 < b", "a + 1 >= b"),
                    ("off by one", "a + 1 < b", "a + 1 <= b"), ("term dropped", "a + 1 < b && c", "c"),
                    ("off by one", "a + 1", "a"))

    def test_terms_keep_their_precedence(self):
        self.expect("return a - b * c + d;", ("term dropped", "b * c", "b"), ("term dropped", "a - b * c", "a"),
                    ("term dropped", "a - b * c + d", "d"))

    def test_statements(self):
        self.expect("if (a) b = 2;\nfoo.bar(a);", ("statement dropped", "b = 2;", ""),
                    ("statement dropped", "foo.bar(a);", ""))
        self.assertFalse([one for one in found("int b = 2;\nTensor c(a);") if one[0] == "statement dropped"])

    def test_arguments_ends_flags_branches_and_constants(self):
        self.expect("g(a, b.size());", ("arguments swapped", "g(.. a, b.size() ..)", "g(.. b.size(), a ..)"))
        self.expect("return list.front() + std::min(a, b);", ("first for last", "list.front()", "list.back()"),
                    ("first for last", "std::min(a, b)", "std::max(a, b)"))
        self.expect("if (!a.empty()) g(true);", ("flag ignored", "!a.empty()", "false"),
                    ("flag ignored", "true", "false"))
        self.expect("return a ? 0.5 : 7;", ("other branch", "a", "!(a)"), ("constant changed", "0.5", "1.0"),
                    ("constant changed", "7", "8"))

    def test_leaves_messages_constants_templates_and_other_machines_alone(self):
        for text in ('fail("op", {.found = std::to_string(a + b)});', "constexpr int c = 1 + 2;",
                     "std::array<int, 4> c;", "#ifdef X\na = b + 1;\n#endif", "// a + b",
                     "static_assert(sizeof(a) == 4);", "float* p;"):
            self.assertEqual(found(text), set(), text)

    def test_guards_keep_the_lines(self):
        text = "int f() {\n  return a +\n      b;\n}\n"
        place = rules.places("x/y.cpp", text)[0]
        begin, end, planted = place.pieces[0]
        self.assertEqual((text[:begin] + planted + text[end:]).count("\n"), text.count("\n"))

    def test_the_same_text_twice_is_two_places(self):
        text = "int f(int n) {\n  while (n < 3) ++n;\n  while (n < 3) ++n;\n}\n"
        places = [place for place in rules.places("x/y.cpp", text) if place.rule == "comparison turned"]
        self.assertEqual([(place.line, place.occurrence) for place in places], [(2, 0), (3, 1)])
        keys = {sample.Fault(1, place).key() for place in places}
        self.assertEqual(len(keys), 2)

    def test_quotas_follow_the_lines(self):
        files = {"a/x.cpp": "1\n" * 90, "b/x.cpp": "1\n" * 10}
        self.assertEqual(sample.quotas(files, 20), {"a": 18, "b": 2})
        self.assertEqual(sum(sample.quotas(files, 7).values()), 7)

    def test_errors_are_blamed_on_their_place(self):
        log = ("/t/src/binade/a/x.cpp:11:3: error: no\n"
               "/t/src/binade/a/y.cpp:21:3:   required from here\n/usr/include/move.h:1:1: error: read-only\n")
        self.assertEqual(sample.errors_of(log), [(("a/x.cpp", 10), []), (("a/y.cpp", 20), [])])


class Coverage(unittest.TestCase):
    def rounds(self, seconds):
        coverage = campaign.Coverage.__new__(campaign.Coverage)
        coverage.seconds = {("x", "A.quick"): 1, ("x", "A.slow"): 50, ("x", "A.rest"): 3, ("y", "B.quick"): 2,
                            ("z", "C.quick"): 1, ("x", "A.broken"): 0}
        coverage.reached = {7: {("x", "A.slow"), ("x", "A.quick"), ("y", "B.quick"), ("x", "A.broken")}}
        coverage.broken = {("x", "A.broken")}
        fault = sample.Fault(7, rules.Place("x/y.cpp", "off by one", 1, "", "", "", []))
        return coverage.rounds(fault, seconds)

    def test_quick_tests_come_first_then_the_others_of_their_executables(self):
        self.assertEqual(self.rounds(1000), [[("x", "A.quick")], [("y", "B.quick")], [("x", "A.slow")],
                                             [("x", "A.rest")]])

    def test_what_takes_too_long_is_left_out(self):
        self.assertEqual(self.rounds(10), [[("x", "A.quick")], [("y", "B.quick")], [("x", "A.rest")]])
        self.assertEqual(self.rounds(0.5), [[("x", "A.quick")]])


if __name__ == "__main__":
    unittest.main()
