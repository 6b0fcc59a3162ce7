// The folder with a secret for each tenant, as it changes.
#include "rendezvous/service/secret_folder.hpp"

#include <sys/stat.h>
#include <utime.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_dir.hpp"

using namespace ddprun;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

namespace fs = std::filesystem;

const std::string kVision = "the secret of vision";
const std::string kNlp = "another secret, of nlp";

void put(const test::TempDir& folder, const std::string& name, const std::string& secret,
         mode_t mode = 0600) {
  const std::string path = folder / name;
  std::ofstream(path) << secret << "\n";
  REQUIRE(chmod(path.c_str(), mode) == 0);
}

/// As if nothing had changed for long: what was read is kept from now on.
void make_old(const std::string& path) {
  const utimbuf long_ago{1'000'000'000, 1'000'000'000};
  REQUIRE(utime(path.c_str(), &long_ago) == 0);
}

rdzv::SecretFolder opened(const test::TempDir& folder) {
  auto secrets = rdzv::SecretFolder::open(folder / "");
  REQUIRE(secrets.has_value());
  return std::move(*secrets);
}

}  // namespace

TEST_CASE("the secret of a run id is in the file of its tenant") {
  const test::TempDir folder;
  put(folder, "vision-*", kVision);
  put(folder, "nlp", kNlp);
  put(folder, ".hidden", kNlp);
  put(folder, "old~", kNlp);
  rdzv::SecretFolder secrets = opened(folder);
  for (int i = 0; i < 2; ++i) {
    CHECK(secrets.secret_for("vision-1") == kVision);
    CHECK(secrets.secret_for("vision-*") == kVision);
    CHECK(secrets.secret_for("nlp") == kNlp);
    for (const std::string none : {"nlp2", "", "vision", ".hidden", "old~", "../nlp", "*"})
      CHECK(secrets.secret_for(none).empty());
  }
  CHECK(secrets.take_warnings().empty());
}

TEST_CASE("tenants are added, changed and removed while the folder is in use") {
  const test::TempDir folder;
  put(folder, "nlp", kNlp);
  if (GENERATE(false, true)) {
    make_old(folder / "nlp");
    make_old(folder / "");
  }
  rdzv::SecretFolder secrets = opened(folder);
  CHECK(secrets.secret_for("nlp") == kNlp);
  CHECK(secrets.secret_for("vision-1").empty());
  const std::uint64_t before = secrets.changes();
  put(folder, "vision-*", kVision);
  CHECK(secrets.secret_for("vision-1") == kVision);
  CHECK(secrets.changes() == before + 1);
  put(folder, "nlp", "the newest secret of nlp");
  CHECK(secrets.secret_for("nlp") == "the newest secret of nlp");
  CHECK(secrets.changes() == before + 1);  // of the names
  put(folder, "new", "a secret that takes its place");
  fs::rename(fs::path(folder / "new"), fs::path(folder / "nlp"));
  CHECK(secrets.secret_for("nlp") == "a secret that takes its place");
  fs::remove(fs::path(folder / "vision-*"));
  CHECK(secrets.secret_for("vision-1").empty());
  CHECK(secrets.tenants().names().size() == 1);
}

TEST_CASE("a secret file that cannot be used is no secret, and is warned of once") {
  const test::TempDir folder;
  put(folder, "nlp", kNlp, 0644);
  put(folder, "vision-*", "short");
  fs::create_directory(fs::path(folder / "audio"));
  rdzv::SecretFolder secrets = opened(folder);
  for (int i = 0; i < 3; ++i)
    for (const std::string job : {"nlp", "vision-1", "vision-2", "audio"})
      CHECK(secrets.secret_for(job).empty());
  const auto warnings = secrets.take_warnings();
  REQUIRE(warnings.size() == 3);
  CHECK_THAT(warnings[0], StartsWith("--secret-dir: the secret file ") && Contains("chmod 600"));
  CHECK_THAT(warnings[1], Contains("must have 16 to 4096"));
  CHECK_THAT(warnings[2], Contains("is not a regular file"));
  put(folder, "nlp", kNlp);
  CHECK(secrets.secret_for("nlp") == kNlp);
  CHECK(secrets.take_warnings().empty());
}

TEST_CASE("a folder of secrets that goes away keeps its tenants, and is warned of once") {
  const test::TempDir parent;
  const std::string folder = parent / "secrets";
  fs::create_directory(folder);
  std::ofstream(folder + "/nlp") << kNlp;
  REQUIRE(chmod((folder + "/nlp").c_str(), 0600) == 0);
  auto secrets = rdzv::SecretFolder::open(folder);
  REQUIRE(secrets.has_value());
  fs::rename(folder, folder + ".away");
  CHECK(secrets->secret_for("nlp").empty());
  CHECK(secrets->secret_for("nlp").empty());
  CHECK(secrets->tenants().names().size() == 1);
  const auto warnings = secrets->take_warnings();
  REQUIRE(!warnings.empty());
  CHECK_THAT(warnings[0], Contains("cannot read the folder " + folder));
  CHECK(std::count_if(warnings.begin(), warnings.end(), [](const std::string& line) {
          return line.find("the folder") != std::string::npos;
        }) == 1);
  fs::rename(folder + ".away", folder);
  CHECK(secrets->secret_for("nlp") == kNlp);
}

TEST_CASE("a folder of secrets must be a folder that no other user may change") {
  const test::TempDir parent;
  const std::string folder = parent / "secrets";
  CHECK_THAT(rdzv::SecretFolder::open(folder).error(),
             StartsWith("cannot use the folder " + folder));
  std::ofstream(folder) << kNlp;
  CHECK_THAT(rdzv::SecretFolder::open(folder).error(), Contains("is no folder"));
  fs::remove(folder);
  fs::create_directory(folder);
  REQUIRE(chmod(folder.c_str(), 0770) == 0);
  CHECK_THAT(rdzv::SecretFolder::open(folder).error(), Contains("other users may change"));
  REQUIRE(chmod(folder.c_str(), 0750) == 0);
  CHECK(rdzv::SecretFolder::open(folder).has_value());
}
