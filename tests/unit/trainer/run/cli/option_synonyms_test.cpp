// Options of other trainers, and topics of the help.
#include "trainer/run/cli/option_synonyms.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "tests/support/short_help_checks.hpp"
#include "texts/misplaced_option.hpp"
#include "trainer/run/cli/options.hpp"

namespace ddprun::trainer {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

std::string answer_to(const std::vector<std::string>& arguments) {
  const auto parsed = parse_options(arguments);
  REQUIRE(std::holds_alternative<EarlyExit>(parsed));
  CHECK(std::get<EarlyExit>(parsed).code == 2);
  return std::get<EarlyExit>(parsed).text;
}

TEST_CASE("an option of other trainers is answered with the one that train has") {
  CHECK(answer_to({"--steps=30"}) ==
        "train: unknown option --steps; did you mean --max-steps=30?\n");
  CHECK(answer_to({"--batch_size", "32"}) ==
        "train: unknown option --batch-size; did you mean --batch=32?\n");
  CHECK_THAT(answer_to({"--learning-rate", "0.1"}), Contains("did you mean --lr=0.1?"));
  CHECK_THAT(answer_to({"--hflip", "1"}), Contains("did you mean --flip?"));
  CHECK_THAT(answer_to({"--bf16"}), Contains("did you mean --precision=bf16?"));
  CHECK_THAT(answer_to({"--output-dir", "runs"}), Contains("did you mean --out?"));
  CHECK_THAT(answer_to({"-b", "32"}), Contains("did you mean --batch=32?"));
}

TEST_CASE("all options that train does not have are answered at once, one a line") {
  CHECK(answer_to({"--n_epoch", "3", "--lr=0.1", "--dataset_root=d", "--num_workers=4", "--foo",
                   "--model_type=resnet34"}) ==
        "train: unknown option --n-epoch; did you mean --epochs=3?\n"
        "train: unknown option --dataset-root; did you mean --data=d?\n"
        "train: unknown option --num-workers; leave it out: train reads and decodes samples with "
        "threads of its own\n"
        "train: unknown option --foo; see train --help\n"
        "train: unknown option --model-type; did you mean --model=unet-resnet34?\n");
  // Also beside a value that is wrong.
  CHECK_THAT(answer_to({"--model=alexnett", "--print_freq=20"}),
             StartsWith("train: --model: must be one of ") &&
                 Contains("train: unknown option --print-freq; did you mean --log-every=20?\n"));
}

TEST_CASE("options of one letter and plain words hide no other wrong option of the line") {
  const std::string print_freq =
      "train: unknown option --print-freq; did you mean --log-every=20?\n";
  const std::string threads =
      "train: unknown option -j; leave it out: train reads and decodes samples with threads of its "
      "own\n";
  CHECK_THAT(answer_to({"--model=alexnett", "-j", "4", "--print_freq=20"}),
             StartsWith("train: --model: must be one of ") && EndsWith(threads + print_freq));
  CHECK_THAT(answer_to({"--epochs=x", "-b", "32", "--n_epoch=3"}),
             StartsWith("train: --epochs: ") &&
                 EndsWith("train: unknown option -b; did you mean --batch=32?\n"
                          "train: unknown option --n-epoch; did you mean --epochs=3?\n"));
  const std::string word =
      "train: unexpected argument folder; all settings are options, see train --help\n";
  CHECK_THAT(answer_to({"--epochs=x", "folder", "--print_freq=20"}),
             StartsWith("train: --epochs: ") && EndsWith(word + print_freq));
  CHECK(answer_to({"folder", "--print_freq=20"}) == word + print_freq);
  CHECK(answer_to({"-j4", "--print_freq=20"}) == threads + print_freq);
  CHECK(answer_to({"-b32"}) == "train: unknown option -b; did you mean --batch=32?\n");
  CHECK_THAT(answer_to({"-z4"}), StartsWith("train: unknown option -z4"));
}

TEST_CASE("a network that has another name here is answered with what to type") {
  CHECK_THAT(answer_to({"--model=vgg16"}), Contains("not vgg16; did you mean --model=unet16?"));
  CHECK_THAT(answer_to({"--model", "RoBERTa-large"}),
             Contains("did you mean --model=textclf --size=large?"));
  CHECK_THAT(answer_to({"--arch=resnet101"}), Contains("did you mean --model=unet-resnet101?"));
  CHECK_THAT(answer_to({"--arch=resnet18"}), Contains("did you mean --model=resnet18?"));
  CHECK_THAT(answer_to({"--arch=vit"}), Contains("did you mean --model=lenet|alexnet|"));
  std::set<std::string_view> seen;
  for (const auto& [here, names] : kModelSynonyms) {
    std::istringstream words{std::string(here)};
    const std::vector<std::string> options{std::istream_iterator<std::string>(words), {}};
    INFO(here);
    CHECK(std::holds_alternative<Options>(parse_options(options)));
    for (const auto name : words_of(names)) CHECK(seen.insert(name).second);
  }
}

TEST_CASE("options that train has no use for are answered with the reason") {
  CHECK_THAT(answer_to({"-j", "4"}), Contains("unknown option -j; leave it out: train reads"));
  CHECK_THAT(answer_to({"--world-size=2"}), Contains("leave it out: the launcher gives"));
  for (const auto& [why, names] : kNotNeeded) {
    for (const auto name : words_of(names)) {
      INFO(name);
      CHECK(program_with_option(name).empty());
      for (const auto& [here, others] : kOptionSynonyms) CHECK_FALSE(has_word(others, name));
    }
  }
}

TEST_CASE("what other trainers call an option is none here, and what to type instead is one") {
  std::set<std::string_view> seen;
  for (const auto& [here, names] : kOptionSynonyms) {
    std::istringstream words{std::string(here)};
    for (std::string word; words >> word;) {
      INFO(word);
      if (!word.starts_with("--")) continue;
      const auto own = options_of("train");
      const std::string_view name = std::string_view(word).substr(2, word.find_first_of("=,") - 2);
      CHECK(std::find(own.begin(), own.end(), name) != own.end());
    }
    for (const auto name : words_of(names)) {
      INFO(name);
      CHECK(seen.insert(name).second);
      CHECK(program_with_option(name).empty());
      CHECK(name.find('_') == std::string_view::npos);
    }
  }
}

TEST_CASE("train -h has the most common options only") {
  const auto parsed = parse_options({"-h"});
  REQUIRE(std::holds_alternative<EarlyExit>(parsed));
  ddprun::test::check_short_help("train", std::get<EarlyExit>(parsed).text);
}

TEST_CASE("the help of train has topics") {
  const auto text = [](const std::string& word) {
    return std::get<EarlyExit>(parse_options({word})).text;
  };
  CHECK_THAT(text("--help=optimizer"), StartsWith("Optimizer\n") && Contains("--momentum=X") &&
                                           Contains("ddprun train --optimizer=adamw"));
  CHECK_THAT(text("--help=comm"), StartsWith("--comm-timeout="));
  CHECK(text("-h=checkpoints") == text("--help=checkpoints"));
  CHECK_THAT(text("--help=max_steps"), StartsWith("--max-steps=N\n"));
  CHECK_THAT(text("--help"), Contains("task, batches, optimizer, machine, checkpoints"));
  CHECK(text("--help=") == text("--help"));
  CHECK(text("-V") == text("--version"));
  CHECK(answer_to({"--help=optimiser"}) ==
        "train: --help=optimiser: no group or option has this name; did you mean "
        "--help=optimizer?\n");
}

}  // namespace
}  // namespace ddprun::trainer
