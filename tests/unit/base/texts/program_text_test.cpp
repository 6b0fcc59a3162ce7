// The writer, with a program that does not exist.
#include "base/texts/program_text.hpp"

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
                   .more = "Not --heat.",
                   .variable = "POT",
                   .no_effect = "there is one pot",
                   .group = "Stove"},
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
)");
}

TEST_CASE("the man page is roff in which options are bold and a leading dot is text") {
  const std::string page = man_page(cook());
  CHECK_THAT(page, StartsWith(".TH DDPRUN-COOK 8 \"\" \"ddprun "));
  CHECK_THAT(page, Contains("\n.SH NAME\nddprun\\-cook \\- cooks for all\n"));
  CHECK_THAT(page, Contains("\\fBcook\\fR [\\fIOPTIONS\\fR]\\fR\n"));
  CHECK_THAT(page, Contains("\n.PP\n\\&.5 l of water are needed; see \\fB\\-\\-pot\\-size\\fR.\n"));
  CHECK_THAT(page, Contains("\n.TP\n\\fB\\-\\-heat\\fR, \\fB\\-t\\fR=low|high\n"));
  CHECK_THAT(page,
             Contains("=\\fIN\\fR\nLitres.\nNot \\fB\\-\\-heat\\fR.\nIt has no effect: there is "
                      "one pot.\nVariable: \\fBPOT\\fR.\n"));
  CHECK_THAT(page, Contains("\n.SH NOTES\nOnly in the page.\n.SH SEE ALSO\nddprun(1)\n"));
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
