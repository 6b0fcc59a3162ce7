// How a real etcd (tests/support/real_etcd.hpp) is closed to strangers: by certificates, or by
// users.
#pragma once

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <string>
#include <vector>

#include "rendezvous/tls/tls.hpp"
#include "tests/support/certificates.hpp"
#include "tests/support/child.hpp"
#include "tests/support/real_etcd.hpp"
#include "tests/support/temp_dir.hpp"

namespace ddprun::test {

inline rdzv::EtcdAccess access_with(const std::string& authorities,
                                    const TestAuthority::Files& own = {}) {
  rdzv::CertificateSettings settings;
  settings.authorities = {"--etcd-ca", authorities};
  settings.certificate = {"--etcd-cert", own.certificate};
  settings.key = {"--etcd-key", own.key};
  settings.allows_tls12 = true;
  auto opened = rdzv::open_tls(settings);
  REQUIRE(opened.has_value());
  rdzv::EtcdAccess access;
  access.encrypter = opened->encrypter;
  return access;
}

/// Certificates of an etcd that speaks TLS and asks each client for one, and of a client of it.
struct EtcdCertificates {
  TestAuthority authority;
  const TestAuthority::Files server = authority.issue("etcd");
  const TestAuthority::Files client = authority.issue("client");

  /// Options of etcd.
  [[nodiscard]] std::vector<std::string> options() const {
    return {"--cert-file=" + server.certificate, "--key-file=" + server.key, "--client-cert-auth",
            "--trusted-ca-file=" + authority.file()};
  }
  [[nodiscard]] rdzv::EtcdAccess access() const { return access_with(authority.file(), client); }
};

inline void etcdctl(const RealEtcd& etcd, const std::vector<std::string>& words) {
  ChildOptions options;
  options.environment = {{"ETCDCTL_API", "3"}};
  std::vector<std::string> command{"/usr/bin/etcdctl", "--endpoints=" + etcd.endpoints()};
  command.insert(command.end(), words.begin(), words.end());
  const ChildResult done = run(command, options);
  INFO(done.out + done.err);
  REQUIRE(done.status == 0);
}

/// etcd has users from now on: root, as which the test goes on, and `name`, which has the keys
/// below ddprun/.
inline void give_users(RealEtcd& etcd, const std::string& name, const std::string& password) {
  const std::vector<std::vector<std::string>> commands{
      {"user", "add", "root:root password"},
      {"user", "add", name + ":" + password},
      {"role", "add", "jobs"},
      {"role", "grant-permission", "jobs", "--prefix=true", "readwrite", "ddprun/"},
      {"user", "grant-role", name, "jobs"},
      {"user", "grant-role", "root", "root"},
      {"auth", "enable"}};
  for (const auto& words : commands) etcdctl(etcd, words);
  rdzv::EtcdAccess root;
  root.user = "root";
  root.password = "root password";
  etcd.use(root);
}

class PasswordFile {
 public:
  explicit PasswordFile(const std::string& password) {
    std::ofstream(path()) << password << "\n";
    REQUIRE(chmod(path().c_str(), 0600) == 0);
  }
  [[nodiscard]] std::string path() const { return (folder_ / "password").string(); }

 private:
  const TempDir folder_;
};

}  // namespace ddprun::test
