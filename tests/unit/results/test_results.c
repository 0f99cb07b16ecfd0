/* test_results.c - what real runners wrote about the same small project, and what is read of it. */
#include "base/buf.h"
#include "results/results.h"
#include "test.h"

static struct arena arena;

static int set_up(void **state)
{
    (void)state;
    arena_init(&arena, 16u << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    arena_fini(&arena);
    return 0;
}

static void assert_counts(const struct test_results *r, int passed, int failed, int skipped,
                          int errors)
{
    assert_int_equal(r->passed, passed);
    assert_int_equal(r->failed, failed);
    assert_int_equal(r->skipped, skipped);
    assert_int_equal(r->errors, errors);
}

static void assert_failure(const struct test_results *r, size_t i, const char *name,
                           const char *file, int line, const char *message)
{
    assert_true(i < r->n_failures);
    assert_str(r->failures[i].name, str_from(name));
    assert_str(r->failures[i].file, str_from(file));
    assert_int_equal(r->failures[i].line, line);
    assert_str(str_head(r->failures[i].message, strlen(message)), str_from(message));
}

static const char pytest_xml[] =
    "<\?xml version=\"1.0\" encoding=\"utf-8\"\?><testsuites><testsuite name=\"pytest\" errors=\"1\" failures=\"1\" skipped=\"1\" tests=\"5\" time=\"0.285\" timestamp=\"2026-11-15T18:54:17.653374\" hostname=\"vm\"><testcase classname=\"test_sum\" name=\"test_passes\" file=\"test_sum.py\" line=\"3\" time=\"0.001\" /><testcase classname=\"test_sum\" name=\"test_fails\" file=\"test_sum.py\" line=\"7\" time=\"0.008\"><failure message=\"AssertionError: wrong &amp; &lt;odd&gt;&#10;assert (1 + 1) == 3\">def test_fails():\n"
    "&gt;       assert 1 + 1 == 3, \"wrong &amp; &lt;odd&gt;\"\n"
    "E       AssertionError: wrong &amp; &lt;odd&gt;\n"
    "E       assert (1 + 1) == 3\n"
    "\n"
    "test_sum.py:9: AssertionError</failure></testcase><testcase classname=\"test_sum\" name=\"test_is_skipped\" file=\"test_sum.py\" line=\"11\" time=\"0.000\"><skipped type=\"pytest.skip\" message=\"not now\">/home/me/pytest/test_sum.py:12: not now</skipped></testcase><testcase classname=\"test_sum\" name=\"test_errors\" file=\"test_sum.py\" line=\"21\" time=\"0.000\"><error message=\"failed on setup with &quot;RuntimeError: no fixture today&quot;\">@pytest.fixture\n"
    "    def broken():\n"
    "&gt;       raise RuntimeError(\"no fixture today\")\n"
    "E       RuntimeError: no fixture today\n"
    "\n"
    "test_sum.py:19: RuntimeError</error></testcase><testcase classname=\"test_sum\" name=\"test_marked\" file=\"test_sum.py\" line=\"25\" time=\"0.000\" /></testsuite></testsuites>";

static void reads_pytest(void **state)
{
    struct test_results r;

    (void)state;
    assert_true(results_junit(&arena, str_from(pytest_xml), &r));
    assert_counts(&r, 2, 1, 1, 1);
    assert_int_equal(r.n_failures, 2);
    assert_failure(&r, 0, "test_sum.test_fails", "test_sum.py", 9,
                   "AssertionError: wrong & <odd>\nassert (1 + 1) == 3");
    assert_failure(&r, 1, "test_sum.test_errors", "test_sum.py", 19, "failed on setup with \"Run");
    assert_int_equal(r.duration_ms, 285);
}

static const char ctest_xml[] =
    "<\?xml version=\"1.0\" encoding=\"UTF-8\"\?>\n"
    "<testsuite name=\"(empty)\"\n"
    "\ttests=\"3\"\n"
    "\tfailures=\"1\"\n"
    "\tdisabled=\"0\"\n"
    "\tskipped=\"1\"\n"
    "\thostname=\"\"\n"
    "\ttime=\"0\"\n"
    "\ttimestamp=\"2026-11-15T18:56:22\"\n"
    "\t>\n"
    "\t<testcase name=\"passes\" classname=\"passes\" time=\"0.0106762\" status=\"run\">\n"
    "\t\t<system-out></system-out>\n"
    "\t</testcase>\n"
    "\t<testcase name=\"fails\" classname=\"fails\" time=\"0.00590442\" status=\"fail\">\n"
    "\t\t<failure message=\"\"/>\n"
    "\t\t<system-out>no luck\n"
    "</system-out>\n"
    "\t</testcase>\n"
    "\t<testcase name=\"is_skipped\" classname=\"is_skipped\" time=\"0.00817634\" status=\"notrun\">\n"
    "\t\t<skipped message=\"SKIP_RETURN_CODE=77\"/>\n"
    "\t\t<system-out></system-out>\n"
    "\t</testcase>\n"
    "</testsuite>\n";

static void reads_ctest(void **state)
{
    struct test_results r;

    (void)state;
    assert_true(results_junit(&arena, str_from(ctest_xml), &r));
    assert_counts(&r, 1, 1, 1, 0);
    assert_failure(&r, 0, "fails", "", 0, "no luck");
}

static const char unittest_text[] =
    "test_described (test_sum.Sum.test_described)\n"
    "What a person calls it. ... ok\n"
    "test_errors (test_sum.Sum.test_errors) ... ERROR\n"
    "test_fails (test_sum.Sum.test_fails) ... FAIL\n"
    "test_is_skipped (test_sum.Sum.test_is_skipped) ... skipped 'not now'\n"
    "test_passes (test_sum.Sum.test_passes) ... ok\n"
    "\n"
    "======================================================================\n"
    "ERROR: test_errors (test_sum.Sum.test_errors)\n"
    "----------------------------------------------------------------------\n"
    "Traceback (most recent call last):\n"
    "  File \"/home/me/unittest/test_sum.py\", line 16, in test_errors\n"
    "    raise RuntimeError(\"no luck\")\n"
    "RuntimeError: no luck\n"
    "\n"
    "======================================================================\n"
    "FAIL: test_fails (test_sum.Sum.test_fails)\n"
    "----------------------------------------------------------------------\n"
    "Traceback (most recent call last):\n"
    "  File \"/home/me/unittest/test_sum.py\", line 9, in test_fails\n"
    "    self.assertEqual(1 + 1, 3, \"wrong\")\n"
    "AssertionError: 2 != 3 : wrong\n"
    "\n"
    "----------------------------------------------------------------------\n"
    "Ran 5 tests in 0.001s\n"
    "\n"
    "FAILED (failures=1, errors=1, skipped=1)\n";

static void reads_unittest(void **state)
{
    struct test_results r;

    (void)state;
    assert_true(results_unittest(&arena, str_from(unittest_text), &r));
    assert_counts(&r, 2, 1, 1, 1);
    assert_int_equal(r.duration_ms, 1);
    assert_failure(&r, 0, "test_errors (test_sum.Sum.test_errors)", "/home/me/unittest/test_sum.py",
                   16, "RuntimeError: no luck");
    assert_failure(&r, 1, "test_fails (test_sum.Sum.test_fails)", "/home/me/unittest/test_sum.py",
                   9, "AssertionError: 2 != 3 : wrong");
    assert_true(results_unittest(&arena, S("\nRan 3 tests in 0.000s\n\nOK\n"), &r));
    assert_counts(&r, 3, 0, 0, 0);
}

static const char node_text[] =
    "\n"
    "> sum@1.0.0 test\n"
    "> node --test\n"
    "\n"
    "TAP version 13\n"
    "# Subtest: passes\n"
    "ok 1 - passes\n"
    "  ---\n"
    "  duration_ms: 9.905247\n"
    "  ...\n"
    "# Subtest: fails\n"
    "not ok 2 - fails\n"
    "  ---\n"
    "  duration_ms: 7.387985\n"
    "  location: '/home/me/node/sum.test.js:5:1'\n"
    "  failureType: 'testCodeFailure'\n"
    "  error: |-\n"
    "    Expected values to be strictly equal:\n"
    "    \n"
    "    2 !== 3\n"
    "    \n"
    "  code: 'ERR_ASSERTION'\n"
    "  name: 'AssertionError'\n"
    "  expected: 3\n"
    "  actual: 2\n"
    "  operator: 'strictEqual'\n"
    "  stack: |-\n"
    "    TestContext.<anonymous> (/home/me/node/sum.test.js:6:10)\n"
    "    Test.runInAsyncScope (node:async_hooks:206:9)\n"
    "    Test.run (node:internal/test_runner/test:796:25)\n"
    "    Test.processPendingSubtests (node:internal/test_runner/test:526:18)\n"
    "    Test.postRun (node:internal/test_runner/test:889:19)\n"
    "    Test.run (node:internal/test_runner/test:835:12)\n"
    "    async Test.processPendingSubtests (node:internal/test_runner/test:526:7)\n"
    "  ...\n"
    "# Subtest: is skipped\n"
    "ok 3 - is skipped # SKIP not now\n"
    "  ---\n"
    "  duration_ms: 0.148111\n"
    "  ...\n"
    "# Subtest: has parts\n"
    "    # Subtest: inner passes\n"
    "    ok 1 - inner passes\n"
    "      ---\n"
    "      duration_ms: 0.13469\n"
    "      ...\n"
    "    # Subtest: inner fails\n"
    "    not ok 2 - inner fails\n"
    "      ---\n"
    "      duration_ms: 0.106198\n"
    "      location: '/home/me/node/sum.test.js:11:11'\n"
    "      failureType: 'testCodeFailure'\n"
    "      error: 'no luck'\n"
    "      code: 'ERR_TEST_FAILURE'\n"
    "      stack: |-\n"
    "        TestContext.<anonymous> (/home/me/node/sum.test.js:12:11)\n"
    "        Test.runInAsyncScope (node:async_hooks:206:9)\n"
    "        Test.run (node:internal/test_runner/test:796:25)\n"
    "        Test.start (node:internal/test_runner/test:702:17)\n"
    "        TestContext.test (node:internal/test_runner/test:292:20)\n"
    "        TestContext.<anonymous> (/home/me/node/sum.test.js:11:11)\n"
    "        async Test.run (node:internal/test_runner/test:797:9)\n"
    "        async Test.processPendingSubtests (node:internal/test_runner/test:526:7)\n"
    "      ...\n"
    "    1..2\n"
    "not ok 4 - has parts\n"
    "  ---\n"
    "  duration_ms: 0.592351\n"
    "  location: '/home/me/node/sum.test.js:9:1'\n"
    "  failureType: 'subtestsFailed'\n"
    "  error: '1 subtest failed'\n"
    "  code: 'ERR_TEST_FAILURE'\n"
    "  ...\n"
    "1..4\n"
    "# tests 6\n"
    "# suites 0\n"
    "# pass 2\n"
    "# fail 3\n"
    "# cancelled 0\n"
    "# skipped 1\n"
    "# todo 0\n"
    "# duration_ms 842.899458\n";

static void reads_node(void **state)
{
    struct test_results r;

    (void)state;
    assert_true(results_tap(&arena, str_from(node_text), &r));
    assert_counts(&r, 2, 3, 1, 0);
    assert_int_equal(r.n_failures, 2);
    assert_failure(&r, 0, "fails", "/home/me/node/sum.test.js", 6,
                   "Expected values to be strictly equal:");
    assert_failure(&r, 1, "inner fails", "/home/me/node/sum.test.js", 12, "no luck");
}

static void reads_plain_tap(void **state)
{
    struct test_results r;

    (void)state;
    assert_true(results_tap(
        &arena,
        S("make[1]: noise\nTAP version 13\n1..5\nok 1 - passes\nnot ok 2 - fails\n  ---\n"
          "  message: no luck\n  at: sum.c:12\n  ...\nok 3 - later # SKIP not now\n"
          "not ok 4 - soon # todo\nok 5\n    not ok 1 - inner\n"),
        &r));
    assert_counts(&r, 2, 1, 2, 0);
    assert_failure(&r, 0, "fails", "sum.c", 12, "no luck");
    assert_true(results_tap(&arena, S("1..2\nok 1\nBail out! no database\n"), &r));
    assert_counts(&r, 1, 0, 0, 1);
}

static const char go_text[] =
    "{\"Action\":\"start\",\"Package\":\"example.com/sum\"}\n"
    "{\"Action\":\"output\",\"Package\":\"example.com/sum\",\"Test\":\"TestPasses\",\"Output\":\"--- PASS: TestPasses (0.00s)\\n\"}\n"
    "{\"Action\":\"pass\",\"Package\":\"example.com/sum\",\"Test\":\"TestPasses\",\"Elapsed\":0}\n"
    "{\"Action\":\"output\",\"Package\":\"example.com/sum\",\"Test\":\"TestFails\",\"Output\":\"    sum_test.go:8: 1 + 1 is 3\\n\"}\n"
    "{\"Action\":\"output\",\"Package\":\"example.com/sum\",\"Test\":\"TestFails\",\"Output\":\"--- FAIL: TestFails (0.00s)\\n\"}\n"
    "{\"Action\":\"fail\",\"Package\":\"example.com/sum\",\"Test\":\"TestFails\",\"Elapsed\":0}\n"
    "{\"Action\":\"output\",\"Package\":\"example.com/sum\",\"Test\":\"TestSkipped\",\"Output\":\"    sum_test.go:12: not now\\n\"}\n"
    "{\"Action\":\"output\",\"Package\":\"example.com/sum\",\"Test\":\"TestSkipped\",\"Output\":\"--- SKIP: TestSkipped (0.00s)\\n\"}\n"
    "{\"Action\":\"skip\",\"Package\":\"example.com/sum\",\"Test\":\"TestSkipped\",\"Elapsed\":0}\n"
    "{\"Action\":\"output\",\"Package\":\"example.com/sum\",\"Test\":\"TestParts/inner\",\"Output\":\"--- PASS: TestParts/inner (0.00s)\\n\"}\n"
    "{\"Action\":\"pass\",\"Package\":\"example.com/sum\",\"Test\":\"TestParts/inner\",\"Elapsed\":0}\n"
    "{\"Action\":\"output\",\"Package\":\"example.com/sum\",\"Test\":\"TestParts/broken\",\"Output\":\"    sum_test.go:17: no luck\\n\"}\n"
    "{\"Action\":\"output\",\"Package\":\"example.com/sum\",\"Test\":\"TestParts/broken\",\"Output\":\"--- FAIL: TestParts/broken (0.00s)\\n\"}\n"
    "{\"Action\":\"fail\",\"Package\":\"example.com/sum\",\"Test\":\"TestParts/broken\",\"Elapsed\":0}\n"
    "{\"Action\":\"output\",\"Package\":\"example.com/sum\",\"Test\":\"TestParts\",\"Output\":\"--- FAIL: TestParts (0.00s)\\n\"}\n"
    "{\"Action\":\"fail\",\"Package\":\"example.com/sum\",\"Test\":\"TestParts\",\"Elapsed\":0}\n"
    "{\"Action\":\"output\",\"Package\":\"example.com/sum\",\"Output\":\"FAIL\\n\"}\n"
    "{\"Action\":\"output\",\"Package\":\"example.com/sum\",\"Output\":\"FAIL\\texample.com/sum\\t0.050s\\n\"}\n"
    "{\"Action\":\"fail\",\"Package\":\"example.com/sum\",\"Elapsed\":0.053}\n";

static void reads_go(void **state)
{
    struct test_results r;

    (void)state;
    assert_true(results_go(&arena, str_from(go_text), &r));
    assert_counts(&r, 2, 3, 1, 0);
    assert_int_equal(r.n_failures, 2);
    assert_failure(&r, 0, "example.com/sum.TestFails", "sum_test.go", 8,
                   "sum_test.go:8: 1 + 1 is 3");
    assert_failure(&r, 1, "example.com/sum.TestParts/broken", "sum_test.go", 17,
                   "sum_test.go:17: no luck");
    assert_true(results_go(
        &arena,
        S("{\"Action\":\"output\",\"Package\":\"a\",\"Output\":\"./x.go:3:1: syntax error\\n\"}\n"
          "{\"Action\":\"fail\",\"Package\":\"a\",\"Elapsed\":0}\n"),
        &r));
    assert_counts(&r, 0, 0, 0, 1);
    assert_failure(&r, 0, "a", "./x.go", 3, "./x.go:3:1: syntax error");
}

static const char cargo_text[] =
    "   Compiling sum v0.1.0 (/tmp/proj/cargo)\n"
    "    Finished `test` profile [unoptimized + debuginfo] target(s) in 3.22s\n"
    "     Running unittests src/lib.rs (target/debug/deps/sum-998cfac313741f21)\n"
    "\n"
    "running 3 tests\n"
    "test tests::is_skipped ... ignored\n"
    "test tests::passes ... ok\n"
    "test tests::fails ... FAILED\n"
    "\n"
    "failures:\n"
    "\n"
    "---- tests::fails stdout ----\n"
    "\n"
    "thread 'tests::fails' (24699) panicked at src/lib.rs:10:9:\n"
    "assertion `left == right` failed: wrong\n"
    "  left: 2\n"
    " right: 3\n"
    "stack backtrace:\n"
    "note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.\n"
    "\n"
    "\n"
    "failures:\n"
    "    tests::fails\n"
    "\n"
    "test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.49s\n"
    "\n"
    "error: test failed, to rerun pass `--lib`\n";

static void reads_cargo(void **state)
{
    struct test_results r;

    (void)state;
    assert_true(results_cargo(&arena, str_from(cargo_text), &r));
    assert_counts(&r, 1, 1, 1, 0);
    assert_int_equal(r.duration_ms, 490);
    assert_int_equal(r.n_failures, 1);
    assert_failure(&r, 0, "tests::fails", "src/lib.rs", 10, "thread 'tests::fails'");
}

static void reads_jest(void **state)
{
    struct test_results r;

    (void)state;
    assert_true(results_jest(
        &arena,
        S("{\"startTime\":1000,\"numTotalTests\":4,\"numPassedTests\":1,\"numFailedTests\":1,\"numPendingTests\":1,"
          "\"numTodoTests\":1,\"numRuntimeErrorTestSuites\":1,\"testResults\":[{\"name\":\"/p/a.test.js\","
          "\"status\":\"failed\",\"assertionResults\":[{\"status\":\"passed\",\"fullName\":\"a\"},"
          "{\"status\":\"failed\",\"fullName\":\"b c\",\"failureMessages\":[\"Error: no\\n    at x "
          "(/p/node_modules/jest/i.js:1:2)\\n    at Object.f (/p/a.test.js:6:7)\"]}],\"endTime\":1250},{\"name\":\"/p/b.test.js\","
          "\"status\":\"failed\",\"message\":\"SyntaxError\",\"assertionResults\":[]}]}"),
        &r));
    assert_counts(&r, 1, 1, 2, 1);
    assert_failure(&r, 0, "b c", "/p/a.test.js", 6, "Error: no");
    assert_str(r.failures[0].message, S("Error: no"));
    assert_int_equal(r.duration_ms, 250);
    assert_failure(&r, 1, "/p/b.test.js", "/p/b.test.js", 0, "SyntaxError");
}

static void reads_automake(void **state)
{
    struct test_results r;

    (void)state;
    assert_true(results_automake(
        &arena,
        S("PASS: a\nFAIL: b\nSKIP: c\n# TOTAL: 6\n# PASS:  2\n# SKIP:  1\n# XFAIL: 1\n"
          "# FAIL:  1\n# XPASS: 0\n# ERROR: 1\n"),
        &r));
    assert_counts(&r, 3, 1, 1, 1);
    assert_failure(&r, 0, "b", "", 0, "see");
}

static void a_file_that_cannot_be_run_is_an_error(void **state)
{
    struct test_results r;

    (void)state;
    assert_true(results_junit(
        &arena,
        S("<testsuites time=\"0.25\"><testsuite name=\"a.test.js\" time=\"0.2\">"
          "<testcase classname=\"a.test.js\" name=\"fails\"><failure message=\"no\"/></testcase></testsuite>"
          "<testsuite name=\"b.test.js\" time=\"0\"><testcase classname=\"b.test.js\" name=\"b.test.js\">"
          "<failure message=\"not to be parsed\"/></testcase></testsuite></testsuites>"),
        &r));
    assert_counts(&r, 0, 1, 0, 1);
    assert_int_equal(r.duration_ms, 250);
    assert_true(results_junit(
        &arena,
        S("<testsuites><testsuite name=\"pytest\" time=\"0.5\"><testcase classname=\"\" name=\"test_a\" "
          "file=\"test_a.py\" time=\"0.000\"><error message=\"collection failure\">"
          "/usr/lib/python3/dist-packages/_pytest/python.py:618: in x\n    y\n"
          "E     File \"/p/test_a.py\", line 3\nE       def test_a(:\nE   SyntaxError: invalid "
          "syntax</error></testcase></testsuite></testsuites>"),
        &r));
    assert_counts(&r, 0, 0, 0, 1);
    assert_int_equal(r.duration_ms, 500);
    assert_failure(&r, 0, "test_a", "/p/test_a.py", 3, "File \"/p/test_a.py\", line 3\n    def");
    assert_true(results_junit(
        &arena,
        S("<testsuite name=\"x\"><testcase name=\"a\" classname=\"a\" status=\"notrun\"><skipped "
          "message=\"Unable to find executable\"/></testcase><testcase name=\"b\" classname=\"b\" "
          "status=\"fail\"><failure message=\"\"/><system-out></system-out></testcase></testsuite>"),
        &r));
    assert_counts(&r, 0, 1, 0, 1);
    assert_failure(&r, 0, "a", "", 0, "Unable to find executable");
    assert_failure(&r, 1, "b", "", 0, "it printed nothing");
}

static void node_escapes_names_and_tells_why_a_file_ended(void **state)
{
    struct test_results r;

    (void)state;
    assert_true(results_tap(
        &arena,
        S("TAP version 13\nok 1 - good\n# /p/b.test.js:2\n# SyntaxError: end of input\n"
          "# Subtest: /p/b.test.js\nnot ok 2 - a \\# b \\\\ c # time=1\n  ---\n  exitCode: 1\n"
          "  error: 'test failed'\n  ...\n# pass 1\n# fail 1\n# skipped 1\n# todo 2\n"),
        &r));
    assert_counts(&r, 1, 1, 3, 0);
    assert_failure(&r, 0, "a # b \\ c", "", 0, "/p/b.test.js:2\nSyntaxError: end of input");
}

static void go_tells_what_was_wrong_with_a_build_and_where_it_panicked(void **state)
{
    struct test_results r;

    (void)state;
    assert_true(results_go(
        &arena,
        S("{\"ImportPath\":\"x [x.test]\",\"Action\":\"build-output\",\"Output\":\"# x [x.test]\\n\"}\n"
          "{\"ImportPath\":\"x [x.test]\",\"Action\":\"build-output\",\"Output\":\"x/b_test.go:3:28: "
          "undefined: y\\n\"}\n"
          "{\"Action\":\"fail\",\"Package\":\"x\",\"Elapsed\":0.25,\"FailedBuild\":\"x [x.test]\"}\n"
          "{\"Action\":\"output\",\"Package\":\"z\",\"Test\":\"TestP\",\"Output\":\"panic: no\\n"
          "\\t/usr/local/go/src/testing/testing.go:1974 +0x232\\n\\t/p/z_test.go:3 +0x28\\n\"}\n"
          "{\"Action\":\"fail\",\"Package\":\"z\",\"Test\":\"TestP\",\"Elapsed\":0}\n"
          "{\"Action\":\"fail\",\"Package\":\"z\",\"Elapsed\":0.5}\n"),
        &r));
    assert_counts(&r, 0, 1, 0, 1);
    assert_int_equal(r.duration_ms, 750);
    assert_failure(&r, 0, "x", "x/b_test.go", 3, "x/b_test.go:3:28: undefined: y");
    assert_failure(&r, 1, "z.TestP", "/p/z_test.go", 3, "panic: no");
}

static void what_is_something_else_is_said_to_be(void **state)
{
    static const char *const texts[] = {"",
                                        "hello\n",
                                        "{}",
                                        "[1]",
                                        "<a/>",
                                        "1..0\n",
                                        "not okay\n",
                                        "FAILED (failures=1)\n",
                                        "test results: none\n"};
    struct test_results r;

    (void)state;
    for (size_t i = 0; i < COUNTOF(texts); i++) {
        struct str text = str_from(texts[i]);

        assert_false(results_junit(&arena, text, &r) || results_tap(&arena, text, &r) ||
                     results_unittest(&arena, text, &r) || results_go(&arena, text, &r) ||
                     results_cargo(&arena, text, &r) || results_jest(&arena, text, &r) ||
                     results_automake(&arena, text, &r));
    }
}

static void at_most_fifty_failures_are_told(void **state)
{
    struct buf text own_buf = {0};
    struct test_results r;

    (void)state;
    buf_init(&text, 1 << 20);
    for (int i = 0; i < 60; i++) {
        buf_addf(&text, "not ok %d - x\n", i + 1);
    }
    assert_true(results_tap(&arena, buf_str(&text), &r));
    assert_counts(&r, 0, 60, 0, 0);
    assert_int_equal(r.n_failures, RESULTS_FAILURES);
    assert_true(r.more);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_pytest),
        cmocka_unit_test(reads_ctest),
        cmocka_unit_test(reads_unittest),
        cmocka_unit_test(reads_node),
        cmocka_unit_test(reads_plain_tap),
        cmocka_unit_test(reads_go),
        cmocka_unit_test(reads_cargo),
        cmocka_unit_test(reads_jest),
        cmocka_unit_test(reads_automake),
        cmocka_unit_test(a_file_that_cannot_be_run_is_an_error),
        cmocka_unit_test(node_escapes_names_and_tells_why_a_file_ended),
        cmocka_unit_test(go_tells_what_was_wrong_with_a_build_and_where_it_panicked),
        cmocka_unit_test(what_is_something_else_is_said_to_be),
        cmocka_unit_test(at_most_fifty_failures_are_told),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
