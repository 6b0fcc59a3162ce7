#include "trainer/run/cli/evaluation_arguments.hpp"

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/support/temp_dir.hpp"
#include "trainer/checkpoint/training_state.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

using Arguments = std::vector<std::string>;
using Catch::Matchers::Contains;

TEST_CASE("options of the model are those of the run that wrote its weights, unless given") {
  const std::map<std::string, std::string> resnet{{"model", "resnet18"},      {"stem", "imagenet"},
                                                  {"decoder", "bilinear"},    {"classes", "7"},
                                                  {"image_shape", "40x40x3"}, {"data", "some"}};
  CHECK(options_of_writer(resnet, {}) ==
        Arguments{"--model=resnet18", "--stem=imagenet", "--classes=7", "--image-shape=40x40x3"});
  CHECK(options_of_writer(resnet, {"--model", "resnet18", "--image_shape=8x8x3", "--stem=small"}) ==
        Arguments{"--classes=7"});
  std::map<std::string, std::string> cropped = resnet;
  cropped.insert({{"crop", "36x36+4"},
                  {"picture_shape", "40x40x3"},
                  {"mean", "0.5,0.25,0"},
                  {"deviation", "1,0.5,1"}});
  cropped["image_shape"] = "36x36x3";
  CHECK(options_of_writer(cropped, {"--stem=small", "--classes=7"}) ==
        Arguments{"--model=resnet18", "--image-shape=40x40x3", "--crop=36x36+4",
                  "--normalize=0.5,0.25,0:1,0.5,1"});
  CHECK(options_of_writer(resnet, {"--model=ResNet18", "--stem=small", "--classes=7"}) ==
        Arguments{"--image-shape=40x40x3"});
  CHECK(options_of_writer({{"format", "pt"}}, {}).empty());
  CHECK(options_of_writer({{"model", "unet16"}, {"decoder", "deconv"}, {"classes", "1"}}, {}) ==
        Arguments{"--model=unet16", "--decoder=deconv"});
  const std::map<std::string, std::string> text{
      {"model", "textclf"}, {"size", "base"}, {"classes", "2"}, {"tokens", "bytes"}};
  CHECK(options_of_writer(text, {}) == Arguments{"--model=textclf", "--classes=2", "--size=base"});
  CHECK(options_of_writer(text, {"--data=x"}) ==
        Arguments{"--model=textclf", "--classes=2", "--size=base", "--tokens=bytes"});
}

TEST_CASE("what chose the held-out samples and their loss is taken over, too") {
  const std::map<std::string, std::string> cracks{
      {"model", "unet16"},   {"seed", "5"},
      {"batch", "2"},        {"generated", "generated-cracks"},
      {"pos_weight", "3.5"}, {"mask_threshold", "50"}};
  CHECK(options_of_writer(cracks, {}) == Arguments{"--model=unet16", "--seed=5", "--batch=2",
                                                   "--data=generated-cracks", "--pos-weight=3.5"});
  CHECK(options_of_writer(cracks, {"--data=x", "--seed=1", "--global-batch=8"}) ==
        Arguments{"--model=unet16", "--pos-weight=3.5", "--mask-threshold=50"});
}

TEST_CASE("a classifier is not evaluated on classes of other names") {
  const std::map<std::string, std::string> there{{kClassNamesEntry, "box/disc/line"}};
  CHECK_NOTHROW(check_classes_of_writer(there, {"box", "disc", "line"}, "w"));
  CHECK_NOTHROW(check_classes_of_writer(there, {}, "w"));
  CHECK_NOTHROW(check_classes_of_writer({}, {"box", "disc"}, "w"));
  CHECK_THROWS_WITH(check_classes_of_writer(there, {"disc", "line"}, "w"),
                    "--resume-from=w: it was trained on other classes: box/disc/line there, "
                    "disc/line here: give the data of its run, or weights that were trained on "
                    "these classes");
}

TEST_CASE("of many classes the first one that differs is told") {
  std::vector<std::string> names;
  for (int i = 0; i < 1000; ++i) names.push_back("n" + std::to_string(i));
  const std::map<std::string, std::string> there{{kClassNamesEntry, joined_class_names(names)}};
  names[500] = "cat";
  CHECK_THROWS_WITH(check_classes_of_writer(there, names, "w"),
                    Contains(": n500 as class 500 of 1000 there, cat as class 500 of 1000 here:"));
  CHECK_THROWS_WITH(check_classes_of_writer(there, {"n0", "n1"}, "w"),
                    Contains(": n2 as class 2 of 1000 there, n0/n1 here:"));
  names.resize(400);
  CHECK_THROWS_WITH(check_classes_of_writer(there, names, "w"),
                    Contains(": n400 as class 400 of 1000 there, 400 classes here:"));
}

TEST_CASE("names of classes that are no UTF-8 are known again by what the file has of them") {
  CHECK(joined_class_names({"caf\xe9", "caf\xc3\xa9", "\xff\xff"}) ==
        "caf\\xe9/caf\xc3\xa9/\\xff\\xff");
}

TEST_CASE("another model than that of the weights, or another form of it, is told of with both") {
  const std::map<std::string, std::string> resnet{
      {"model", "resnet18"}, {"stem", "small"}, {"classes", "10"}};
  CHECK_NOTHROW(check_given_model(resnet, {"--model=ResNet18", "--stem", "small"}, "w"));
  CHECK_NOTHROW(check_given_model({{"format", "pt"}}, {"--model=lenet"}, "w"));
  CHECK_THROWS_WITH(
      check_given_model(resnet, {"--model", "lenet", "--stem=imagenet"}, "w"),
      "--resume-from=w: it was trained with --model=resnet18, but --model=lenet is given: leave "
      "out --model, or give weights that were trained with it");
  CHECK_THROWS_WITH(
      check_given_model(resnet, {"--stem=imagenet"}, "w"),
      Contains("trained with --stem=small, but --stem=imagenet is given: leave out --stem"));
  CHECK_THROWS_WITH(check_given_model(resnet, {"--classes=3"}, "w"), Contains("--classes=10"));
}

TEST_CASE("of a run's directory the best checkpoint is evaluated, else the latest") {
  const ddprun::test::TempDir run;
  const auto write = [&](const char* checkpoint) {
    std::filesystem::create_directories(run.path() / checkpoint);
    std::ofstream(run.path() / checkpoint / "model.safetensors") << "weights";
  };
  CHECK_THROWS_WITH(weights_file_of(run.path()),
                    Contains("--resume-from=" + run.path().string() +
                             ": neither model.safetensors, nor a checkpoint"));
  write("latest");
  CHECK(weights_file_of(run.path()) == run.path() / "latest" / "model.safetensors");
  write("best");
  CHECK(weights_file_of(run.path()) == run.path() / "best" / "model.safetensors");
  CHECK(weights_file_of(run.path() / "latest") == run.path() / "latest" / "model.safetensors");
  CHECK(weights_file_of(run.path() / "nothing") == run.path() / "nothing");
}

TEST_CASE("without links the checkpoint that is marked best is evaluated, else the newest") {
  const ddprun::test::TempDir run;
  const auto write = [&](std::int64_t step, bool best) {
    TrainingState state;
    state.step = step;
    state.sequence = static_cast<std::uint64_t>(step);
    state.best = best;
    const auto folder = run.path() / ("step-" + std::to_string(step));
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "state.json") << to_json(state, {});
    std::ofstream(folder / "model.safetensors") << "weights";
    return folder / "model.safetensors";
  };
  const auto link = [&](const char* name, const char* target) {
    std::filesystem::create_directory_symlink(target, run.path() / name);
  };
  const auto first = write(1, false);
  CHECK(weights_file_of(run.path()) == first);
  const auto second = write(2, true);
  const auto third = write(3, false);
  CHECK(weights_file_of(run.path()) == second);
  SECTION("folders that were once copied from links are older than the checkpoints") {
    std::filesystem::create_directory(run.path() / "best");
    std::ofstream(run.path() / "best" / "model.safetensors") << "weights";
    CHECK(weights_file_of(run.path()) == second);
  }
  SECTION("of a folder of runs one is named") {
    const ddprun::test::TempDir runs;
    for (const char* const one : {"2026-11-28", "2026-11-29"})
      std::filesystem::copy(run.path(), runs.path() / one,
                            std::filesystem::copy_options::recursive);
    CHECK_THROWS_WITH(weights_file_of(runs.path()),
                      Contains("--resume-from=" + runs.path().string() +
                               " holds runs: give one of them, such as --resume-from=" +
                               (runs / "2026-11-29").string()));
    std::filesystem::create_directory_symlink("2026-11-28", runs.path() / "latest");
    CHECK_THROWS_WITH(weights_file_of(runs.path()),
                      Contains(" such as --resume-from=" + (runs / "latest").string()));
  }
  SECTION("links go first") {
    link("latest", "step-3");
    CHECK(weights_file_of(run.path()) == run.path() / "latest" / "model.safetensors");
    link("best", "step-1");
    CHECK(weights_file_of(run.path()) == run.path() / "best" / "model.safetensors");
  }
}

TEST_CASE("the weights' path is found in either spelling, and what cannot be read is named") {
  const ddprun::test::TempDir directory;
  const std::string file = (directory.path() / "damaged").string();
  std::ofstream(file) << "xx";
  const auto refused = [](const Arguments& arguments) {
    CHECK_THROWS_WITH(evaluation_arguments(arguments),
                      Contains("--resume-from=") && Contains("damaged: "));
  };
  refused({"--eval", "--resume-from=" + file});
  refused({"--resume_from", file, "--eval"});
  for (const Arguments& same :
       {Arguments{"--resume-from=" + file}, Arguments{"--eval"},
        Arguments{"--eval", "--resume-from"}, Arguments{"--eval", "--resume-from="}})
    CHECK(evaluation_arguments(same) == same);
}

}  // namespace
}  // namespace ddprun::trainer
