#include "launcher/make_secret.hpp"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

#include "base/secret_file.hpp"
#include "tests/support/temp_dir.hpp"

using namespace ddprun;
using namespace ddprun::launcher;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

mode_t mode_of(const std::string& path) {
  struct stat file {};
  REQUIRE(stat(path.c_str(), &file) == 0);
  return file.st_mode & 07777;
}

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("a new secret is 64 digits that only their owner may read, in a folder made for it") {
  const test::TempDir folder;
  const std::string path = (folder / "a/b/secret").string();
  const mode_t before = umask(0);
  const auto made = make_secret_file(path);
  umask(before);
  REQUIRE(made.has_value());
  CHECK_THAT(*made, StartsWith("A new secret is in " + path + ".\n") && Contains("mode 600"));
  CHECK(mode_of(path) == 0600);
  CHECK(mode_of((folder / "a/b").string()) == 0700);
  CHECK(mode_of((folder / "a").string()) == 0700);
  CHECK_THAT(*made, !Contains("chmod"));
  const auto secret = read_secret_file(path);
  REQUIRE(secret.has_value());
  CHECK(secret->size() == 64);
  CHECK(secret->find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK_THAT(*made, !Contains(*secret));

  REQUIRE(make_secret_file((folder / "other").string()).has_value());
  CHECK(*read_secret_file((folder / "other").string()) != *secret);
}

TEST_CASE("the folder of a secret is made with the same mode whatever the umask is") {
  const test::TempDir folder;
  const mode_t mask = GENERATE(0, 002, 022, 077, 0777);
  const mode_t before = umask(mask);
  const auto made = make_secret_file((folder / "a/b/secret").string());
  umask(before);
  REQUIRE(made.has_value());
  CHECK(mode_of((folder / "a/b").string()) == 0700);
  CHECK(mode_of((folder / "a/b/secret").string()) == 0600);
}

TEST_CASE("a folder that others can change is named with what to type") {
  const test::TempDir folder;
  const auto text_for = [&](mode_t mode) {
    const std::string path = (folder / std::to_string(mode)).string();
    REQUIRE(mkdir(path.c_str(), 0700) == 0);
    REQUIRE(chmod(path.c_str(), mode) == 0);
    const auto made = make_secret_file(path + "/secret");
    REQUIRE(made.has_value());
    CHECK(mode_of(path) == mode);
    return *made;
  };
  CHECK_THAT(text_for(0777), Contains("Other users can change its folder (mode 0777)") &&
                                 Contains("type chmod go-w " + (folder / "511").string() + "\n"));
  CHECK_THAT(text_for(0775), Contains("chmod go-w"));
  CHECK_THAT(text_for(0755), !Contains("chmod"));
  CHECK_THAT(text_for(01777), !Contains("chmod"));  // as in /tmp: only its owner removes a file
}

TEST_CASE("a folder with a blank in its name is named as a shell needs it") {
  const test::TempDir folder;
  const std::string path = (folder / "my keys").string();
  REQUIRE(mkdir(path.c_str(), 0700) == 0);
  REQUIRE(chmod(path.c_str(), 0777) == 0);
  const auto made = make_secret_file(path + "/secret");
  REQUIRE(made.has_value());
  CHECK_THAT(*made, Contains("type chmod go-w '" + path + "'\n"));
}

TEST_CASE("a secret that exists is never replaced") {
  const test::TempDir folder;
  const std::string path = (folder / "secret").string();
  std::ofstream(path) << "mine";
  const auto made = make_secret_file(path);
  REQUIRE_FALSE(made.has_value());
  CHECK(made.error().exit_code == 2);
  CHECK_THAT(made.error().message,
             StartsWith("--make-secret: " + path + " exists and stays as it is"));
  CHECK(text_of(path) == "mine");
}

TEST_CASE("a place where no secret can be made is refused with another one to type") {
  const test::TempDir folder;
  std::ofstream((folder / "file").string()) << "x";
  const auto made = make_secret_file((folder / "file/secret").string());
  REQUIRE_FALSE(made.has_value());
  CHECK_THAT(made.error().message,
             Contains("cannot write " + (folder / "file/secret: ").string()) &&
                 Contains("--rdzv-secret-file=FILE"));
  CHECK_THAT(make_secret_file("").error().message, Contains("HOME is not set"));
}
