// The writer, with a program that does not exist.
#include "texts/program_text.hpp"

#include <catch2/catch.hpp>
#include <string>

using namespace ddprun;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

ProgramText cook() {
  return {
      .name = "cook",
      .page = "ddprun-cook",
      .page_section = 8,
      .purpose = "cooks for all",
      .synopsis = "cook [OPTIONS]",
      .description = "Cooks.\n.5 l of water are needed; see --pot-size.",
      .examples = {{"cook --heat=low", "for a long time"}},
      .option_rules = "The cook decides.",
      .options = {{.names = {"--heat", "-t"},
                   .choices = {"low", "high"},
                   .help = "How [hot] the cook's stove is: now",
                   .default_text = "low",
                   .group = "Stove"},
                  {.names = {"--pot-size", "--pot_size", "--pan-size"},
                   .placeholder = "N",
                   .help = "Litres",
                   .more = "Not --heat, nor --lid=<*>, or --heat=low; see docs/pots.md.",
                   .variable = "POT",
                   .no_effect = "there is one pot",
                   .group = "Stove",
                   .example = "cook --pot-size=3"},
                  {.names = {"--recipes"},
                   .placeholder = "DIR",
                   .help = "Where they are",
                   .group = "Kitchen"}},
      .sections = {{.title = "Exit status",
                    .text = "After the meal:",
                    .terms = {{"0", "good"}, {"127", "not found"}}},
                   {.title = "Notes", .text = "Only in the page.", .terms = {}, .in_help = false}},
      .see_also = "ddprun(1)"};
}

}  // namespace

TEST_CASE("the help has description, usage, examples, options by group and sections") {
  CHECK(help(cook()) ==
        R"(Cooks.
.5 l of water are needed; see --pot-size.

Usage: cook [OPTIONS]

Examples
  cook --heat=low
      for a long time

Stove
  -t, --heat=low|high             How [hot] the cook's stove is: now (default:
                                  low)
      --pot-size=N                Litres; also --pan-size; no effect: there is
                                  one pot

Kitchen
      --recipes=DIR               Where they are

Exit status
  After the meal:
  0    good
  127  not found

Names have dashes or underscores (--like-this, --like_this). A value follows =
or is the next word. The cook decides. --man has more.
--help=GROUP shows one group: stove, kitchen, exit, notes. --help=OPTION shows
one option with an example, as in --help=heat.
)");
}

TEST_CASE("the man page is roff in which options are bold and a leading dot is text") {
  const std::string page = man_page(cook());
  CHECK_THAT(page, StartsWith(".TH DDPRUN-COOK 8 \"\" \"ddprun "));
  CHECK_THAT(page, Contains("\n.SH NAME\nddprun\\-cook \\- cooks for all\n"));
  CHECK_THAT(page, Contains("\\fBcook\\fR [\\fIOPTIONS\\fR]\\fR\n"));
  CHECK_THAT(page, Contains("\n.PP\n\\&.5 l of water are needed; see \\fB\\-\\-pot\\-size\\fR.\n"));
  CHECK_THAT(page, Contains("\n.TP\n\\fB\\-\\-heat\\fR, \\fB\\-t\\fR=low|\\:high\n"));
  CHECK_THAT(page, Contains("=\\fIN\\fR\nLitres.\nNot \\fB\\-\\-heat\\fR, nor "
                            "\\fB\\-\\-lid\\fR=<*>, or \\fB\\-\\-heat\\fR=low; see "
                            "docs/pots.md.\nIt has no effect: there is "
                            "one pot.\nVariable: \\fBPOT\\fR.\nExample: \\fBcook "
                            "\\-\\-pot\\-size=3\\fR\n"));
  CHECK_THAT(page, Contains("\n.SH NOTES\nOnly in the page.\n.SH SEE ALSO\nddprun(1)\n"));
}

TEST_CASE(
    "the page in Markdown links options and documents, and shows other characters unchanged") {
  CHECK(markdown_page(cook()) == R"(# cook

Cooks for all.

```text
cook [OPTIONS]
```

Cooks.

.5 l of water are needed; see [`--pot-size`](#--pot-size).

## Examples

For a long time:

```sh
cook --heat=low
```

## Options

Names have dashes or underscores (`--like-this`, `--like_this`). A value follows = or is the next word.

The cook decides.

### Stove

#### `--heat`

`--heat=low|high`

How \[hot\] the cook's stove is: now.

Default: low. Also `-t`.

#### `--pot-size`

`--pot-size=N`

Litres. Not [`--heat`](#--heat), nor `--lid=<*>`, or [`--heat=low`](#--heat); see [pots](../pots.md). It has no effect: there is one pot.

Variable: `POT`. Also `--pan-size`.

```sh
cook --pot-size=3
```

### Kitchen

#### `--recipes`

`--recipes=DIR`

Where they are.

## Exit status

After the meal:

- `0`: good.
- `127`: not found.

## Notes

Only in the page.
)");
}

TEST_CASE("texts are quoted for each shell") {
  CHECK_THAT(completion(cook(), "zsh"),
             Contains("'--heat=[How \\[hot\\] the cook'\\''s stove is\\: now]:heat:(low high)'"));
  CHECK_THAT(completion(cook(), "fish"), Contains("-d 'How [hot] the cook\\'s stove is: now'"));
  ProgramText loud = cook();
  loud.options[1].help = "Litres! The cook's, @ sea level";
  CHECK_THAT(completion(loud, "tcsh"),
             Contains("'n@--pot[-_]size@x:N: Litres\\! The cook'\\''s,   sea level@'"));
}

TEST_CASE("a folder is completed as one in every shell") {
  CHECK_THAT(completion(cook(), "bash"), Contains("--recipes) COMPREPLY=($(compgen -d -- "));
  CHECK_THAT(completion(cook(), "zsh"), Contains("'--recipes=[Where they are]:folder:_files -/'"));
  CHECK_THAT(completion(cook(), "fish"), Contains("-a '(__fish_complete_directories)'"));
  CHECK_THAT(completion(cook(), "tcsh"), Contains("'n@--recipes@d@' \\\n  'c@--recipes=@d@'"));
}
