// Certificates for tests, made by the program openssl; without it the test case is skipped.
#pragma once

#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/child.hpp"
#include "tests/support/skip.hpp"
#include "tests/support/temp_dir.hpp"

namespace ddprun::test {

/// So far from now, as certificates have times.
inline std::string certificate_time(std::chrono::seconds from_now) {
  const auto at = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now() + from_now);
  std::tm utc{};
  gmtime_r(&at, &utc);
  char text[32];
  REQUIRE(std::strftime(text, sizeof text, "%Y%m%d%H%M%SZ", &utc) != 0);
  return text;
}

/// Signs certificates as the authority of a site does. Its files go with it.
class TestAuthority {
 public:
  struct Wish {
    std::string names = "DNS:localhost,IP:127.0.0.1";
    std::string usage = "serverAuth,clientAuth";
    std::string from = "20200101000000Z";
    std::string until = "20991231235959Z";
  };
  struct Files {
    std::string certificate;
    std::string key;
  };

  explicit TestAuthority(const std::string& name = "authority") {
    prepare();
    openssl({"req", "-config", path("settings"), "-x509", "-newkey", "ec", "-pkeyopt",
             "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", path("ca.key"), "-out", file(),
             "-days", "3650", "-subj", "/CN=" + name, "-extensions", "root"});
  }
  /// One between `parent` and what it signs; behind each certificate its file has this one's.
  TestAuthority(const std::string& name, TestAuthority& parent, const Wish& wish) {
    prepare();
    const Files own = parent.sign(name, "basicConstraints=critical,CA:TRUE\n", wish);
    std::filesystem::copy_file(own.certificate, file());
    std::filesystem::copy_file(own.key, path("ca.key"));
    is_between_ = true;
  }

  /// The authority's own certificate.
  [[nodiscard]] std::string file() const { return path("ca.pem"); }

  Files issue(const std::string& name, const Wish& wish) {
    const Files files = sign(name,
                             "basicConstraints=CA:FALSE\nextendedKeyUsage=" + wish.usage + "\n" +
                                 (wish.names.empty() ? "" : "subjectAltName=" + wish.names + "\n"),
                             wish);
    if (is_between_)
      std::ofstream(files.certificate, std::ios::app) << std::ifstream(file()).rdbuf();
    return files;
  }
  Files issue(const std::string& name) { return issue(name, Wish()); }

  /// A certificate for localhost that its own key has signed.
  Files self_signed(const std::string& name) {
    const Files files{path(name + ".pem"), path(name + ".key")};
    openssl({"req", "-config", path("settings"), "-x509", "-newkey", "ec", "-pkeyopt",
             "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", files.key, "-out",
             files.certificate, "-days", "3650", "-subj", "/CN=" + name, "-addext",
             "subjectAltName=DNS:localhost,IP:127.0.0.1"});
    return files;
  }
  /// A copy of the key with a pass phrase.
  std::string with_pass_phrase(const std::string& key) {
    openssl({"pkey", "-in", key, "-aes256", "-passout", "pass:secret", "-out", key + ".locked"});
    return key + ".locked";
  }

  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder_.path() / name).string();
  }

 private:
  void prepare() const {
    if (access("/usr/bin/openssl", X_OK) != 0) skip("the program openssl is not installed");
    std::ofstream(path("settings"))
        << "[ca]\ndefault_ca=d\n[d]\ndatabase=" << path("index")
        << "\nnew_certs_dir=" << folder_.path().string() << "\nserial=" << path("serial")
        << "\nrand_serial=yes\n"
        << "default_md=sha256\npolicy=p\nunique_subject=no\n[p]\ncommonName=supplied\n"
        << "[req]\ndistinguished_name=r\n[r]\n"
        << "[root]\nbasicConstraints=critical,CA:TRUE\nsubjectKeyIdentifier=hash\n";
    std::ofstream(path("index")) << "";
  }
  Files sign(const std::string& name, const std::string& extensions, const Wish& wish) {
    const Files files{path(name + ".pem"), path(name + ".key")};
    std::ofstream(path(name + ".ext")) << "[e]\n" << extensions;
    openssl({"req", "-config", path("settings"), "-new", "-newkey", "ec", "-pkeyopt",
             "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", files.key, "-out",
             path(name + ".req"), "-subj", "/CN=" + name});
    openssl({"ca",
             "-batch",
             "-notext",
             "-config",
             path("settings"),
             "-keyfile",
             path("ca.key"),
             "-cert",
             file(),
             "-in",
             path(name + ".req"),
             "-out",
             files.certificate,
             "-extfile",
             path(name + ".ext"),
             "-extensions",
             "e",
             "-startdate",
             wish.from,
             "-enddate",
             wish.until});
    return files;
  }
  static void openssl(std::vector<std::string> words) {
    words.insert(words.begin(), "/usr/bin/openssl");
    const ChildResult made = run(words);
    INFO(made.err);
    REQUIRE(made.status == 0);
  }

  TempDir folder_;
  bool is_between_ = false;
};

}  // namespace ddprun::test
