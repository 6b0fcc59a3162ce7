"""Tests of lint_coroutines.py: every forbidden shape is caught, and what is fine is left alone."""

import pathlib
import unittest

import lint_coroutines

ROOT = pathlib.Path(__file__).resolve().parents[2]


def findings(body, path="agent/a.cpp"):
    text = "asio::awaitable<void> run() {\n  " + body + "\n}\n"
    return [what for _, what in lint_coroutines.findings_in(path, text)]


class ForbiddenShapes(unittest.TestCase):
    def assert_caught(self, body, part):
        found = findings(body)
        self.assertTrue(any(part in what for what in found), f"{body!r} gave {found}")

    def test_an_aggregate_temporary_as_argument_is_caught(self):
        self.assert_caught("co_await f(Options{.a = s});", "braced temporary")
        self.assert_caught("auto x = co_await f(1, Options{s, 2});", "braced temporary")
        self.assert_caught("co_await f(Pair<int, int>{1, 2});", "braced temporary")
        self.assert_caught("co_await f(std::array<int, 2>{1, 2});", "braced temporary")

    def test_a_bare_braced_argument_is_caught(self):
        self.assert_caught("co_await f({a, b});", "braced temporary")
        self.assert_caught("co_await f(a, {b});", "braced temporary")
        self.assert_caught("co_await f(g(a), h({b}));", "braced temporary")

    def test_a_braced_temporary_inside_another_call_of_the_expression_is_caught(self):
        self.assert_caught("co_await with_deadline(f(Options{s}), 1s);", "braced temporary")

    def test_a_braced_temporary_on_a_later_line_of_the_call_is_caught(self):
        self.assert_caught("co_await f(a,\n      // why\n      Options{s});", "braced temporary")

    def test_a_capturing_lambda_is_caught(self):
        self.assert_caught("co_await g([x] { return x; });", "capturing lambda")
        self.assert_caught("co_await g([&](int a) { return a; });", "capturing lambda")
        self.assert_caught("co_await co_spawn(ex, [this]() -> awaitable<void> { co_return; }, token);", "capturing lambda")

    def test_an_await_in_an_arm_of_a_conditional_is_caught(self):
        self.assert_caught("auto x = c ? co_await a() : b;", "?:")
        self.assert_caught("auto x = c ? b : co_await a();", "?:")
        self.assert_caught("f(c ? (co_await a()) : b);", "?:")

    def test_an_await_to_the_right_of_a_logical_operator_is_caught(self):
        self.assert_caught("if (a && co_await b()) { c(); }", "to the right of &&")
        self.assert_caught("while (!a() || !(co_await b())) {}", "to the right of ||")
        self.assert_caught("bool x = a and co_await b();", "to the right of and")
        self.assert_caught("if (p && (q + co_await b())) { c(); }", "to the right of &&")

    def test_an_await_in_a_braced_initializer_is_caught(self):
        self.assert_caught("auto o = Options{.a = co_await f()};", "braced initializer")
        self.assert_caught("for (auto& v : std::vector{co_await f()}) { use(v); }", "braced initializer")
        self.assert_caught("g({1, co_await f()});", "braced initializer")

    def test_a_shape_inside_the_body_of_a_lambda_coroutine_is_caught(self):
        self.assert_caught("auto task = []() -> awaitable<void> { co_await f(Options{1}); };", "braced temporary")

    def test_detached_is_caught(self):
        self.assert_caught("co_spawn(ctx, f(), asio::detached);", "detached")

    def test_a_coroutine_in_a_core_or_in_the_trainer_is_caught(self):
        self.assertTrue(findings("co_return;", "trainer/run/loop.cpp"))
        self.assertTrue(findings("co_await f();", "proto/frame.cpp"))

    def test_a_finding_names_its_line(self):
        lines = [line for line, _ in lint_coroutines.findings_in("agent/a.cpp", "int a;\n\nco_await f({a});\n")]
        self.assertEqual(lines, [3])


class AllowedShapes(unittest.TestCase):
    def assert_allowed(self, body, path="agent/a.cpp"):
        self.assertEqual(findings(body, path), [], body)

    def test_a_named_aggregate_is_fine(self):
        self.assert_allowed("Options o{.a = s};\n  co_await f(std::move(o));")
        self.assert_allowed("co_await f(Options(s));")

    def test_temporaries_with_constructors_of_the_standard_library_are_fine(self):
        self.assert_allowed('co_await f(std::string{"x"}, std::chrono::seconds{5}, std::make_pair(1, 2));')

    def test_a_structured_binding_is_fine(self):
        self.assert_allowed("auto [a, b] = co_await f();")
        self.assert_allowed("auto&& [a, b] = co_await f();")
        self.assert_allowed("auto&& a = co_await f();")

    def test_an_await_in_the_initializer_of_an_if_is_fine(self):
        self.assert_allowed("if (auto r = co_await f(); r && a) { g(); }")

    def test_an_await_before_a_logical_operator_or_a_conditional_is_fine(self):
        self.assert_allowed("bool x = co_await a() && b;")
        self.assert_allowed("auto x = co_await a() ? b : c;")
        self.assert_allowed("co_await f(a ? b : c, d && e);")

    def test_an_await_in_a_block_below_a_condition_is_fine(self):
        self.assert_allowed("if (a && b) co_await c();")
        self.assert_allowed("if (a && b) { co_await c(); }")
        self.assert_allowed("auto x = a ? b : c;\n  co_await f();")
        self.assert_allowed("switch (a) { case 1: { co_await f(); break; } default: co_await g(); }")
        self.assert_allowed("try { co_await f(); } catch (const E& e) { g(e); }")
        self.assert_allowed("for (;;) { co_await f(); }\n  do { co_await g(); } while (a && b);")

    def test_co_return_of_a_braced_value_is_fine(self):
        self.assert_allowed("co_await f();\n  co_return Options{.a = s};")

    def test_a_lambda_without_captures_is_fine(self):
        self.assert_allowed("co_await g([](int a) { return a; });")

    def test_a_subscript_is_fine(self):
        self.assert_allowed("co_await f(list[i], g(x)[j](1));")

    def test_a_capturing_lambda_that_is_named_first_is_fine(self):
        self.assert_allowed("auto task = [x]() { return x; };\n  co_await g(task);")

    def test_a_member_function_and_a_lambda_with_a_return_type_are_blocks(self):
        self.assert_allowed("auto task = []() -> asio::awaitable<Result<int>> { co_await f(); };")
        self.assert_allowed("} asio::awaitable<void> Server::run() const { co_await f(); } void g() {")

    def test_comments_and_literals_are_not_looked_at(self):
        self.assert_allowed("// co_await f({a}); detached")
        self.assert_allowed("/* c ? co_await a() : b */ co_await f();")
        self.assert_allowed('co_await f("({", \'{\', R"(a && co_await {)", 1\'000);')


class TheProject(unittest.TestCase):
    def test_the_sources_hold_no_forbidden_coroutine_shape(self):
        self.assertEqual(lint_coroutines.main(ROOT), 0)


if __name__ == "__main__":
    unittest.main()
