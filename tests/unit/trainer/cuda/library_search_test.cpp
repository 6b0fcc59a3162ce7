#include "trainer/cuda/library_search.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>

#include "tests/support/temp_dir.hpp"
#include "trainer/cuda/python_folders.hpp"

namespace ddprun::trainer::cuda {
namespace {

using Catch::Contains;
using Result = LibraryAttempt::Result;

const WantedLibrary kWanted{.name = "cuDNN 9", .file = "libcudnn.so.9", .pip = "nvidia-cudnn-cu13"};

/// A machine with these files; every other one is absent.
struct Machine {
  std::map<std::string, LibraryAttempt> files;
  std::vector<std::string> python;
  std::vector<std::string> tried = {};
  int asked_python = 0;

  LibrarySearch search(LibraryPlaces places) {
    places.python = [this] {
      ++asked_python;
      return python;
    };
    return search_library(kWanted, places, [this](const LibraryCandidate& candidate) {
      tried.push_back(candidate.path);
      const auto found = files.find(candidate.path);
      return found == files.end() ? LibraryAttempt{} : found->second;
    });
  }
};

const LibraryPlaces kPlaces{
    .given = "/given:/more", .beside = "/train", .toolkits = {"/toolkit"}, .python = {}};
const LibraryAttempt kGood{Result::good, ""};

TEST_CASE(
    "a library is looked for where the user says, beside train, by the loader, in the toolkit") {
  Machine machine;
  CHECK(machine.search(kPlaces).path.empty());
  CHECK(machine.tried ==
        std::vector<std::string>{"/given/libcudnn.so.9", "/given/lib64/libcudnn.so.9",
                                 "/given/lib/libcudnn.so.9", "/more/libcudnn.so.9",
                                 "/more/lib64/libcudnn.so.9", "/more/lib/libcudnn.so.9",
                                 "/train/libcudnn.so.9", "libcudnn.so.9", "/toolkit/libcudnn.so.9",
                                 "/toolkit/lib64/libcudnn.so.9", "/toolkit/lib/libcudnn.so.9"});
}

TEST_CASE("python3 is asked for its packages only when everything else has failed") {
  Machine machine{.files = {{"libcudnn.so.9", kGood}}, .python = {"/site/nvidia/cudnn/lib"}};
  CHECK(machine.search(kPlaces).path == "libcudnn.so.9");
  CHECK(machine.asked_python == 0);
  machine.files = {{"/site/nvidia/cudnn/lib/libcudnn.so.9", kGood}};
  CHECK(machine.search(kPlaces).path == "/site/nvidia/cudnn/lib/libcudnn.so.9");
  CHECK(machine.asked_python == 1);
}

TEST_CASE("a library that cannot be used is passed over for the next one") {
  Machine machine{.files = {{"libcudnn.so.9", {Result::unusable, "/x is too old"}},
                            {"/toolkit/lib/libcudnn.so.9", kGood}},
                  .python = {}};
  CHECK(machine.search(kPlaces).path == "/toolkit/lib/libcudnn.so.9");
}

TEST_CASE("in place of an unusable library that the user named no other one is taken") {
  Machine machine{.files = {{"/given/lib/libcudnn.so.9", {Result::unusable, "/given is too old"}},
                            {"libcudnn.so.9", kGood}},
                  .python = {}};
  const LibrarySearch search = machine.search(kPlaces);
  CHECK(search.path.empty());
  CHECK(search.why ==
        "cuDNN 9 in DDPRUN_CUDA_PATH cannot be used: /given is too old: name another folder there, "
        "or unset it");
  CHECK(machine.asked_python == 0);
}

TEST_CASE("without a usable library one line names it, the reason or the places, and the remedy") {
  Machine machine;
  CHECK_THAT(machine.search(kPlaces).why, Contains("cuDNN 9 (libcudnn.so.9) was not found") &&
                                              Contains("DDPRUN_CUDA_PATH") && Contains("/train") &&
                                              Contains("pip install nvidia-cudnn-cu13"));
  machine.files = {{"libcudnn.so.9", {Result::unusable, "/x/libcudnn.so.9 is cuDNN 8.9.7"}}};
  CHECK(machine.search(kPlaces).why == "cuDNN 9 cannot be used: /x/libcudnn.so.9 is cuDNN 8.9.7");
}

TEST_CASE("the places come from the environment") {
  const std::map<std::string, std::string> environment{{"DDPRUN_CUDA_PATH", "/a:/b"},
                                                       {"CUDA_HOME", "/home"}};
  const LibraryPlaces places = library_places(
      [&](const char* name) {
        const auto found = environment.find(name);
        return found == environment.end() ? nullptr : found->second.c_str();
      },
      "/train", [] { return std::vector<std::string>{"/site"}; });
  CHECK(places.given == "/a:/b");
  CHECK(places.beside == "/train");
  CHECK(places.python() == std::vector<std::string>{"/site"});
  CHECK(places.toolkits == std::vector<std::string>{"/home", "/usr/local/cuda"});
}

TEST_CASE("dlopen's complaint tells a missing file from one that cannot be used") {
  const LibraryCandidate candidate{"libcudnn.so.9", "the loader's path"};
  const std::string missing = ": cannot open shared object file: No such file or directory";
  CHECK(failed_attempt(candidate, "libcudnn.so.9" + missing).result == Result::absent);
  CHECK(failed_attempt(candidate, "libother.so.1" + missing).result == Result::unusable);
  CHECK(failed_attempt(candidate, "libcudnn.so.9: file too short").why ==
        "libcudnn.so.9: file too short");
}

/// A program that answers as python3 would.
std::string make_python(const ddprun::test::TempDir& directory, const std::string& script) {
  const auto path = directory / "python3";
  std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path.string();
}

TEST_CASE("the folders of pip's packages are those that exist below python3's") {
  const ddprun::test::TempDir directory;
  std::filesystem::create_directories(directory / "site/nvidia/cudnn/lib");
  std::filesystem::create_directories(directory / "site/nvidia/cu13/lib");
  std::filesystem::create_directories(directory / "site/nvidia/empty");
  const std::string site = (directory / "site").string();
  const std::string python = make_python(directory, "echo; echo /nonexistent; echo '" + site + "'");
  CHECK(python_package_folders(python.c_str(), std::chrono::seconds(20)) ==
        std::vector<std::string>{site + "/nvidia/cu13/lib", site + "/nvidia/cudnn/lib"});
}

TEST_CASE("a python3 that is missing or does not answer in time gives no folders") {
  const ddprun::test::TempDir directory;
  CHECK(python_package_folders("/nonexistent/python3", std::chrono::seconds(20)).empty());
  std::filesystem::create_directories(directory / "site/nvidia/cu13/lib");
  const std::string python =
      make_python(directory, "echo '" + (directory / "site").string() + "'; exec sleep 100");
  CHECK(python_package_folders(python.c_str(), std::chrono::milliseconds(200)).empty());
}

}  // namespace
}  // namespace ddprun::trainer::cuda
