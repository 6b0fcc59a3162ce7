// --help=TOPIC, with a program that does not exist.
#include "texts/help_topic.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

using namespace ddprun;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;
using Words = std::vector<std::string>;

namespace {

ProgramText kitchen() {
  return {
      .name = "cook",
      .options = {{.names = {"--heat", "-t"},
                   .choices = {"low", "high"},
                   .help = "How hot the stove is",
                   .more = "It takes a while, with --pot-lid less.",
                   .default_text = "low",
                   .variable = "COOK_HEAT",
                   .group = "Stove, and oven",
                   .example = "cook --heat=high"},
                  {.names = {"--pot-size", "--pot_size"},
                   .placeholder = "N",
                   .help = "Litres",
                   .group = "Pots"},
                  {.names = {"--pot-lid"}, .help = "With a lid", .group = "Pots"},
                  {.names = {"--pots"}, .placeholder = "N", .help = "How many", .group = "Pots"},
                  {.names = {"--oven-cover"},
                   .help = "Not used (has a lid)",
                   .no_effect = "there is none",
                   .group = "Pots"},
                  {.names = {"--help", "-h"},
                   .placeholder = "TOPIC",
                   .takes_topic = true,
                   .help = "Help",
                   .group = "cook itself"}},
      .sections = {{.title = "Pots and pans", .text = "They are in the cupboard."},
                   {.title = "Exit status", .terms = {{"0", "good"}}, .in_help = false}},
      .topics = {{"Stove, and oven", "stove|oven"}}};
}

std::string shown_topic(std::string_view topic) {
  const TopicHelp help = topic_help(kitchen(), topic);
  INFO(help.text);
  CHECK(help.found);
  return help.text;
}

std::string refused_topic(std::string_view topic) {
  const TopicHelp help = topic_help(kitchen(), topic);
  CHECK_FALSE(help.found);
  return help.text;
}

}  // namespace

TEST_CASE("a topic of the help is a group, by each of its words") {
  const std::string stove =
      "Stove, and oven\n  -t, --heat=low|high             How hot the stove is (default: low)\n";
  CHECK(shown_topic("stove") == stove);
  CHECK(shown_topic("Oven") == stove);
  CHECK(shown_topic("stove and oven") == stove);
}

TEST_CASE("groups, sections and an option of the same word are shown together") {
  const std::string text = shown_topic("pots");
  CHECK_THAT(text, StartsWith("Pots\n") && Contains("\n\nPots and pans\n  They are"));
  CHECK_THAT(text, Contains("\n\n--pots=N\n  How many.\n"));
  CHECK(shown_topic("--pots") == "--pots=N\n  How many.\n");
}

TEST_CASE("a section is a topic also where it is not in the whole help") {
  CHECK(shown_topic("exit") == "Exit status\n  0  good\n");
  CHECK(shown_topic("exit_status") == shown_topic("exit"));
}

TEST_CASE("a topic of the help is an option, with all that is known of it and an example") {
  CHECK(shown_topic("heat") ==
        "-t, --heat=low|high\n  How hot the stove is.\n  It takes a while, with --pot-lid less.\n  "
        "Default: low.\n"
        "  Variable: COOK_HEAT.\n\n  cook --heat=high\n");
  CHECK(shown_topic("-t") == shown_topic("heat"));
  CHECK(shown_topic("pot_size") == "--pot-size=N\n  Litres.\n");
  CHECK(shown_topic("--help") == "-h, --help[=TOPIC]\n  Help.\n");
}

TEST_CASE(
    "a group's word without its s and the begin of one option's name are clear enough, and a word "
    "of "
    "a text is no topic") {
  CHECK(shown_topic("pot") == shown_topic("pots"));
  CHECK(shown_topic("pot-s") == shown_topic("pot-size"));
  refused_topic("pot-");
  for (const auto* word : {"lid", "many", "litres", "it"}) refused_topic(word);
}

TEST_CASE("a word that is an option of another program of ours is answered with how to see it") {
  CHECK(refused_topic("epochs") ==
        "--help=epochs: epochs is an option of train: ddprun train --help=epochs shows it");
  CHECK(refused_topic("nnodes") ==
        "--help=nnodes: nnodes is an option of ddprun: ddprun --help=nnodes shows it");
  CHECK(refused_topic("size") ==
        "--help=size: size is an option of train: ddprun train --help=size shows it");
}

TEST_CASE("the word behind --help is a topic only if it is one as it stands") {
  CHECK(help_of_topic(kitchen(), "oven") == shown_topic("oven"));
  CHECK(help_of_topic(kitchen(), "heat") == shown_topic("heat"));
  for (const auto* word : {"lid", "sizes", "pot", "cook.py", ""})
    CHECK(help_of_topic(kitchen(), word).empty());
}

TEST_CASE("a wrong topic is answered with the nearest one that has an effect, or the groups") {
  CHECK_THAT(refused_topic("oven-covre"), !Contains("oven-cover?"));
  CHECK(refused_topic("stoev") ==
        "--help=stoev: no group or option has this name; did you mean --help=stove?");
  CHECK(refused_topic("frobnicate") ==
        "--help=frobnicate: no group or option has this name; the groups are stove, pots, cook, "
        "exit");
  CHECK_THAT(refused_topic("-"), Contains("the groups are"));
}

TEST_CASE("the help ends with its topics, and completions offer each of them once") {
  CHECK(group_topics(kitchen()) == Words{"stove", "pots", "cook", "exit"});
  CHECK(all_topics(kitchen()) == Words{"stove", "pots", "cook", "exit", "heat", "pot-size",
                                       "pot-lid", "oven-cover", "help"});
  CHECK(topics_sentence(kitchen()) ==
        "--help=GROUP shows one group: stove, pots, cook, exit. --help=OPTION shows one option "
        "with an example, as in --help=heat.");
  CHECK_THAT(
      completion(kitchen(), "bash"),
      Contains("--help|-h) words=\"stove pots cook exit heat pot-size pot-lid oven-cover help\""));
  CHECK_THAT(completion(kitchen(), "zsh"), Contains("'--help=-[Help]::TOPIC:(stove pots cook "));
  CHECK_THAT(completion(kitchen(), "zsh"), Contains("'-h[Help]'"));
  CHECK_THAT(completion(kitchen(), "fish"), Contains("-l help -s h -f -a 'stove pots cook "));
  CHECK_THAT(completion(kitchen(), "tcsh"), Contains("'c@--help=@(stove pots cook "));
}
