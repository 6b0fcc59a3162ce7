"""Tests of lint_classes.py: members and methods are counted as a reader counts them, and no class of the product has too many."""

import contextlib
import io
import pathlib
import tempfile
import unittest
from unittest import mock

import lint_classes

ROOT = pathlib.Path(__file__).resolve().parents[2]


def counts(text):
    """Type -> (members, methods)."""
    return {found.name: (found.members, found.methods) for found in lint_classes.types_in(text)}


def a_class(body):
    return counts("class A {\n" + body + "\n};\n")["A"]


class Members(unittest.TestCase):
    def test_each_variable_counts_whatever_its_type_and_initializer(self):
        self.assertEqual(a_class("""
 public:
  int a;
  int b = 1, c{2};
  std::map<int, std::vector<std::string>> d = {{1, {}}};
  std::function<void(int)> e = [](int x) { return x < 2; };
  const AgentConfig& f;
  void (*g)(int) = nullptr;
  void (Other::*h)();
  std::array<int, (1 << 2)> i;
  [[maybe_unused]] bool j : 1;
  alignas(64) std::atomic<int> k{0};
"""), (11, 0))

    def test_constants_do_not(self):
        self.assertEqual(a_class("""
  static constexpr int kOne{1};
  static constexpr std::array<int, 2> kTwo = {1, 2};
  inline static constexpr auto kThree = [](int x) { return x; };
  static int counter_;
"""), (1, 0))

    def test_types_of_its_own_are_counted_apart(self):
        found = counts("""
struct A : Base<int>, Other {
  enum class Kind { one, two } kind = Kind::one;
  enum Color { red, green };
  struct B {
    int x;
    int y;
    void f() {}
  };
  struct {
    int z;
  } unnamed;
  using Table = std::array<int, 2>;
  friend class C;
  struct Later;
  B b;
};
""")
        self.assertEqual(found, {"A": (3, 0), "A::B": (2, 1), "A::(unnamed)": (1, 0)})


class Methods(unittest.TestCase):
    def test_each_overload_counts_with_constructors_operators_and_templates(self):
        self.assertEqual(a_class("""
  explicit A(int x) : a_(x), b_{x, 2}, c_([this] { f(1); }) {
    if (x < 1) f(x);
  }
  ~A();
  void f(int);
  void f(std::string) const noexcept;
  [[nodiscard]] auto g() const -> std::pair<int, int> { return {1, 2}; }
  bool operator<(const A& other) const;
  bool operator()(int x) { return x > 1; }
  template <class T, class U = int>
  void h(T&& t, U u = {}) requires(sizeof(T) > 1);
  virtual void i(int x = (1, 2)) = 0;
  static constexpr int j() { return 1; }
  decltype(auto) k() { return a_; }
  int a_;
"""), (1, 11))

    def test_defaulted_and_deleted_functions_and_friends_do_not(self):
        self.assertEqual(a_class("""
  A() = default;
  A(const A&) = delete;
  A& operator=(const A&) = delete;
  friend bool operator==(const A&, const A&) { return true; }
"""), (0, 0))

    def test_classes_in_bodies_and_anonymous_namespaces_are_seen(self):
        self.assertEqual(counts("""
namespace {
template <class T>
struct Call;
template <class T>
struct Call<T*> final : Base {
  void f() {
    struct Inner { int x; };
  }
};
void g(struct stat* s) {
  struct stat status{};
  struct InFunction { int a; int b; };
}
}
"""), {"Call<T*>": (0, 1), "Call<T*>::Inner": (1, 0), "InFunction": (2, 0)})

    def test_comments_literals_and_macros_are_no_code(self):
        self.assertEqual(a_class("""
#define MEMBERS int x; \\
  int y;
  // int z;
  std::string a = "; int b;";
  char c = ';';
"""), (2, 0))


class Limits(unittest.TestCase):
    def check(self, text, exceptions=None, file="agent/streams/a.hpp"):
        """What is printed for a tree of one file, without the exit status, which must fit."""
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(lint_classes, "EXCEPTIONS", exceptions or {}):
            path = pathlib.Path(folder, file)
            path.parent.mkdir(parents=True)
            path.write_text(text)
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                status = lint_classes.main(folder)
            self.assertEqual(status, 1 if printed.getvalue() else 0)
            return printed.getvalue()

    def text(self, members=0, methods=0):
        return "// what for\nclass A {\n" + "".join(f"  int m{i};\n" for i in range(members)) + \
            "".join(f"  void f{i}();\n" for i in range(methods)) + "};\n"

    def test_a_class_at_the_limits_is_fine(self):
        self.assertEqual(self.check(self.text(lint_classes.MEMBERS_MAX, lint_classes.METHODS_MAX)), "")

    def test_one_member_or_method_more_is_found_with_its_line(self):
        for members, methods in ((lint_classes.MEMBERS_MAX + 1, 0), (0, lint_classes.METHODS_MAX + 1)):
            printed = self.check(self.text(members, methods))
            self.assertTrue(printed.startswith(f"agent/streams/a.hpp:2: A has {members} members and {methods} methods: "), printed)

    def test_an_exception_is_kept_only_as_long_as_it_is_needed(self):
        exceptions = {"A": "one function for each call"}
        self.assertEqual(self.check(self.text(members=lint_classes.MEMBERS_MAX + 1), exceptions), "")
        self.assertIn("A is within the limits", self.check(self.text(members=1), exceptions))

    def test_tests_may_be_as_large_as_they_need(self):
        self.assertEqual(self.check(self.text(members=50), file="tests/unit/a.hpp"), "")

    def test_every_exception_has_a_reason(self):
        for name, reason in lint_classes.EXCEPTIONS.items():
            self.assertGreater(len(reason), 20, name)

    def test_the_classes_of_the_product_keep_to_the_limits(self):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            self.assertEqual(lint_classes.main(ROOT), 0, printed.getvalue())


if __name__ == "__main__":
    unittest.main()
