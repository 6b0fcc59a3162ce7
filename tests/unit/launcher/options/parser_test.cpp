#include "launcher/options/parser.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>

using namespace ddprun::launcher;
using Catch::Matchers::Contains;

namespace {

// A table of its own: the parser knows no option by name.
constexpr std::array kTable = {
    OptionRow{.name = "node-rank",
              .environment = "PET_NODE_RANK",
              .type = ValueType::integer,
              .placeholder = "R"},
    OptionRow{
        .name = "node-count", .type = ValueType::count, .placeholder = "N", .default_value = "7"},
    OptionRow{
        .name = "redirects", .short_name = 'r', .type = ValueType::text, .placeholder = "MAP"},
    OptionRow{.name = "verbose",
              .short_name = 'v',
              .environment = "PET_VERBOSE",
              .type = ValueType::flag},
    OptionRow{.name = "quick", .short_name = 'q', .type = ValueType::flag},
    OptionRow{.name = "color",
              .environment = "PET_COLOR",
              .type = ValueType::choice,
              .choices = "red|green"},
    OptionRow{.name = "dry-run", .type = ValueType::optional_choice, .choices = "text|json"},
    OptionRow{.name = "wait", .type = ValueType::seconds, .placeholder = "SECONDS"},
    OptionRow{.name = "method",
              .environment = "PET_METHOD",
              .type = ValueType::text,
              .placeholder = "M",
              .no_effect = "there is only one"},
    OptionRow{.name = "help", .short_name = 'h', .type = ValueType::flag, .ends = true},
};

/// A row of kTable, taken to be of any type.
struct AnyRef {
  RowRef row;
  operator RowRef() const { return row; }
  template <ValueType... types>
  operator TypedRef<types...>() const {
    return TypedRef<types...>(row);
  }
};

AnyRef at(std::string_view name) {
  const auto row = std::find_if(kTable.begin(), kTable.end(),
                                [&](const OptionRow& candidate) { return candidate.name == name; });
  REQUIRE(row != kTable.end());
  return {RowRef::at(static_cast<std::size_t>(row - kTable.begin()))};
}

LaunchResult<ParsedCommandLine> parse(const std::vector<std::string>& arguments,
                                      const Environment& environment = {}) {
  return parse_command_line(kTable, arguments, environment);
}

ParsedCommandLine accepted(const std::vector<std::string>& arguments,
                           const Environment& environment = {}) {
  const auto parsed = parse(arguments, environment);
  if (!parsed) FAIL(parsed.error().message);
  return *parsed;
}

std::string refused(const std::vector<std::string>& arguments,
                    const Environment& environment = {}) {
  const auto parsed = parse(arguments, environment);
  if (parsed) FAIL("was accepted");
  CHECK(parsed.error().exit_code == 2);
  CHECK(parsed.error().message.find('\n') == std::string::npos);
  return parsed.error().message;
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("a value follows in the next word or behind an equals sign") {
  CHECK(accepted({"--node-rank", "3", "p"}).integer(at("node-rank")) == 3);
  CHECK(accepted({"--node-rank=3", "p"}).integer(at("node-rank")) == 3);
  CHECK(accepted({"--node_rank=3", "p"}).integer(at("node-rank")) == 3);
  CHECK(accepted({"--redirects=a=b", "p"}).text(at("redirects")) == "a=b");
  CHECK(accepted({"--redirects=", "p"}).text(at("redirects")).empty());
}

TEST_CASE("a short option takes its value attached, behind an equals sign, or in the next word") {
  CHECK(accepted({"-r3", "p"}).text(at("redirects")) == "3");
  CHECK(accepted({"-r=3", "p"}).text(at("redirects")) == "3");
  CHECK(accepted({"-r", "3", "p"}).text(at("redirects")) == "3");
}

TEST_CASE("several short flags share one dash, and the last may take a value") {
  const auto parsed = accepted({"-vqr0:1", "p"});
  CHECK(parsed.flag(at("verbose")));
  CHECK(parsed.flag(at("quick")));
  CHECK(parsed.text(at("redirects")) == "0:1");
}

TEST_CASE("of a repeated option the last one wins") {
  CHECK(accepted({"--node-rank=1", "--node_rank", "2", "p"}).integer(at("node-rank")) == 2);
}

TEST_CASE("an unambiguous beginning of a long name is accepted") {
  CHECK(accepted({"--node-r=4", "p"}).integer(at("node-rank")) == 4);
  CHECK(accepted({"--node_r", "4", "p"}).integer(at("node-rank")) == 4);
  CHECK(accepted({"--verb", "p"}).flag(at("verbose")));
}

TEST_CASE("an ambiguous beginning is an error that names the candidates") {
  CHECK(refused({"--node=4", "p"}) ==
        "--node is ambiguous: it could be --node-rank or --node-count");
}

TEST_CASE("an exact name wins over a longer one that begins with it") {
  constexpr std::array rows = {OptionRow{.name = "log"}, OptionRow{.name = "log-dir"}};
  const auto parsed = parse_command_line(rows, {"--log", "p"}, {});
  REQUIRE(parsed.has_value());
  CHECK(parsed->flag(FlagRef(RowRef::at(0))));
  CHECK_FALSE(parsed->flag(FlagRef(RowRef::at(1))));
}

TEST_CASE("parsing stops at the first word that is neither option nor value") {
  const auto parsed = accepted({"-v", "prog", "--node-rank=9", "--nonsense", "-h", "--"});
  CHECK(parsed.program == "prog");
  CHECK(parsed.arguments == Words{"--node-rank=9", "--nonsense", "-h", "--"});
  CHECK_FALSE(parsed.given(at("node-rank")));
  CHECK(parsed.ended_by == std::nullopt);
}

TEST_CASE("one dash-dash directly before PROGRAM is removed and a later one is passed on") {
  const auto parsed = accepted({"-v", "--", "prog", "--", "-x"});
  CHECK(parsed.program == "prog");
  CHECK(parsed.arguments == Words{"--", "-x"});
  CHECK(accepted({"--", "--odd-name", "a"}).program == "--odd-name");
}

TEST_CASE("without one before it, one dash-dash directly after PROGRAM is removed") {
  CHECK(accepted({"prog", "--", "--depth=26"}).arguments == Words{"--depth=26"});
  CHECK(accepted({"prog", "--", "--", "x"}).arguments == Words{"--", "x"});
  CHECK(accepted({"prog", "a", "--", "b"}).arguments == Words{"a", "--", "b"});
}

TEST_CASE("a lone dash-dash, or no word at all, leaves PROGRAM missing") {
  CHECK_FALSE(accepted({"--"}).program.has_value());
  CHECK_FALSE(accepted({}).program.has_value());
  CHECK_FALSE(accepted({"-v"}).program.has_value());
}

TEST_CASE("a negative number is a value, another word with a dash is not") {
  CHECK(accepted({"--node-rank", "-5", "p"}).integer(at("node-rank")) == -5);
  CHECK(accepted({"--redirects", "-1.5", "p"}).text(at("redirects")) == "-1.5");
  CHECK(accepted({"--redirects", "-", "p"}).text(at("redirects")) == "-");
  CHECK(accepted({"--redirects", "-a b", "p"}).text(at("redirects")) == "-a b");
  CHECK_THAT(refused({"--redirects", "-x", "p"}),
             Contains("--redirects needs a value") && Contains("--redirects=-x"));
  CHECK(accepted({"--redirects=-x", "p"}).text(at("redirects")) == "-x");
}

TEST_CASE("a missing value is an error that shows how to write it") {
  CHECK(refused({"--node-rank"}) == "--node-rank needs a value: --node-rank=R");
  CHECK(refused({"--color"}) == "--color needs a value: --color=red|green");
  CHECK(refused({"-r"}) == "-r needs a value: -r MAP");
  CHECK_THAT(refused({"--node-rank", "--", "p"}), Contains("needs a value"));
}

TEST_CASE("a flag refuses a value") {
  CHECK(refused({"--verbose=1", "p"}) == "--verbose takes no value: write --verbose alone");
  CHECK(refused({"-v=1", "p"}) == "-v takes no value: write -v alone");
}

TEST_CASE("an unknown option is refused and the nearest one is named") {
  CHECK_THAT(refused({"--node-rnak=1", "p"}),
             Contains("unknown option --node-rnak; did you mean --node-rank?"));
  CHECK_THAT(refused({"--nod_rank=1", "p"}), Contains("did you mean --node-rank?"));
  CHECK_THAT(refused({"-node_rank=1", "p"}), Contains("did you mean --node-rank?"));
  CHECK_THAT(refused({"--zzz", "p"}), Contains("unknown option --zzz") && Contains("--help"));
  CHECK_THAT(refused({"-z", "p"}), Contains("unknown option -z"));
  CHECK_THAT(refused({"-n", "2", "p"}),
             Contains("unknown option -n; did you mean --nproc-per-node=2?"));
  CHECK_THAT(refused({"-np", "4", "p"}), Contains("did you mean --nproc-per-node=4?"));
  CHECK_THAT(refused({"-n8", "p"}), Contains("did you mean --nproc-per-node=8?"));
  CHECK_THAT(refused({"-np", "p"}), Contains("did you mean --nproc-per-node=N?"));
  CHECK_THAT(refused({"-vz", "p"}), Contains("unknown option -vz"));
  CHECK_THAT(refused({"---", "p"}), Contains("unknown option ---"));
  CHECK_THAT(refused({"--=x", "p"}), Contains("unknown option --"));
}

TEST_CASE("a bad number is refused with what was expected") {
  CHECK(refused({"--node-rank=abc", "p"}) == "--node-rank=abc: expected a whole number");
  CHECK(refused({"--node_rank", "=", "2", "p"}) == "no blanks around =: type --node_rank=2");
  CHECK(refused({"--node-rank", "=2", "p"}) == "no blanks around =: type --node-rank=2");
  CHECK(refused({"--redirects", "="}) == "no blanks around =: type --redirects=VALUE");
  CHECK(refused({"--node-rank=", "p"}) == "--node-rank=: expected a whole number");
  CHECK(refused({"--node-rank=1.5", "p"}) == "--node-rank=1.5: expected a whole number");
  CHECK_THAT(refused({"--node-rank=99999999999999999999", "p"}),
             Contains("expected a whole number"));
  CHECK(refused({"--node-count=-1", "p"}) == "--node-count=-1: expected a whole number, 0 or more");
  CHECK(accepted({"--node-count", " +3 ", "p"}).integer(at("node-count")) == 3);
}

TEST_CASE("a word that is no choice is refused and the nearest choice is named, in any case") {
  CHECK(refused({"--color=gren", "p"}) ==
        "--color=gren: expected red or green; did you mean green?");
  CHECK(accepted({"--color=GREEN", "p"}).text(at("color")) == "green");  // as --log-level=INFO
  CHECK(refused({"--color=xyz", "p"}) == "--color=xyz: expected red or green");
}

TEST_CASE("an optional value stands behind an equals sign only") {
  CHECK(accepted({"--dry-run", "json"}).text(at("dry-run")) == "text");
  CHECK(accepted({"--dry-run", "json"}).program == "json");
  CHECK(accepted({"--dry-run=json", "p"}).text(at("dry-run")) == "json");
  CHECK_THAT(refused({"--dry-run=xml", "p"}), Contains("expected text or json"));
}

TEST_CASE("durations have decimals and units") {
  using std::chrono::milliseconds;
  CHECK(accepted({"--wait=30", "p"}).seconds(at("wait")) == milliseconds(30'000));
  CHECK(accepted({"--wait=0.25", "p"}).seconds(at("wait")) == milliseconds(250));
  CHECK(accepted({"--wait=500ms", "p"}).seconds(at("wait")) == milliseconds(500));
  CHECK(accepted({"--wait=2m", "p"}).seconds(at("wait")) == milliseconds(120'000));
  CHECK(accepted({"--wait=1h", "p"}).seconds(at("wait")) == milliseconds(3'600'000));
  CHECK(accepted({"--wait=0", "p"}).seconds(at("wait")) == milliseconds(0));
  CHECK(accepted({"--wait= +1.5e1 S ", "p"}).seconds(at("wait")) == milliseconds(15'000));
  CHECK(accepted({"--wait=0.0016", "p"}).seconds(at("wait")) == milliseconds(2));
  CHECK(accepted({"--wait=1ms", "p"}).seconds(at("wait")) == milliseconds(1));
  for (const std::string zero : {"0", "0.0", "0ms", "0e5", "-0"})
    CHECK(accepted({"--wait=" + zero, "p"}).seconds(at("wait")) == milliseconds(0));
  // What would round to 0 would mean "none" or "at once".
  for (const std::string bad : {"0.0004", "0.0009", "0.9ms", "1e-9", "1e-400", "1e-310", "-1",
                                "nan", "inf", "1e99", "1e999", "0x10", "3 days", "", "s", "- 1"}) {
    CHECK_THAT(refused({"--wait=" + bad, "p"}), Contains("expected seconds"));
  }
}

TEST_CASE("a variable gives the default and the command line wins") {
  CHECK(accepted({"p"}, {{"PET_NODE_RANK", "5"}}).integer(at("node-rank")) == 5);
  CHECK(accepted({"p"}, {{"PET_NODE_RANK", "5"}}).given(at("node-rank")));
  CHECK(accepted({"--node-rank=6", "p"}, {{"PET_NODE_RANK", "5"}}).integer(at("node-rank")) == 6);
  CHECK(accepted({"--node-rank=6", "p"}, {{"PET_NODE_RANK", "rubbish"}}).integer(at("node-rank")) ==
        6);
}

TEST_CASE("a flag's variable is on for non-zero numbers and for words such as true") {
  for (const std::string on : {"1", "2", "-1", "true", "True", "YES", "on"}) {
    CHECK(accepted({"p"}, {{"PET_VERBOSE", on}}).flag(at("verbose")));
  }
  for (const std::string off : {"0", "false", "No", "off"}) {
    CHECK_FALSE(accepted({"p"}, {{"PET_VERBOSE", off}}).flag(at("verbose")));
  }
  CHECK(refused({"p"}, {{"PET_VERBOSE", "maybe"}}) ==
        "PET_VERBOSE=maybe: expected 1 (on) or 0 (off)");
}

TEST_CASE("a bad variable is refused by its own name") {
  CHECK(refused({"p"}, {{"PET_NODE_RANK", "x"}}) == "PET_NODE_RANK=x: expected a whole number");
  CHECK_THAT(refused({"p"}, {{"PET_COLOR", "blue"}}),
             Contains("PET_COLOR=blue: expected red or green"));
}

TEST_CASE("an empty variable counts as not set and that is noted") {
  const auto parsed = accepted({"p"}, {{"PET_NODE_RANK", ""}});
  CHECK_FALSE(parsed.given(at("node-rank")));
  CHECK(parsed.warnings == Words{"PET_NODE_RANK is empty and counts as not set"});
}

TEST_CASE("a row's default applies if the option is not given") {
  const auto parsed = accepted({"p"});
  CHECK(parsed.integer(at("node-count")) == 7);
  CHECK_FALSE(parsed.given(at("node-count")));
  CHECK_FALSE(parsed.integer(at("node-rank")).has_value());
  CHECK_FALSE(parsed.seconds(at("wait")).has_value());
}

TEST_CASE("an option without effect is accepted and noted once, however it came") {
  const std::string note = "--method=b has no effect here: there is only one";
  CHECK(accepted({"--method=a", "--method=b", "p"}).warnings == Words{note});
  CHECK(accepted({"p"}, {{"PET_METHOD", "c"}}).warnings ==
        Words{"PET_METHOD=c has no effect here: there is only one"});
  CHECK(accepted({"p"}).warnings.empty());
}

TEST_CASE("help ends the parsing at once, whatever follows and whatever the variables are") {
  const auto parsed = accepted({"-v", "--help", "--nonsense"}, {{"PET_NODE_RANK", "x"}});
  CHECK(parsed.ended_by == at("help"));
  CHECK(accepted({"-vh"}).ended_by == at("help"));
  CHECK(accepted({"prog", "--help"}).ended_by == std::nullopt);
  CHECK_THAT(refused({"--nonsense", "--help"}), Contains("unknown option"));
}
