// The etcd of a job that meets over one: its members, where the job's keys are, and how this node
// gets in: by HTTPS, with a certificate, as a user.
#include <utility>

#include "base/lower_case.hpp"
#include "launcher/plan/plan_parts.hpp"

namespace ddprun::launcher {
namespace {

using agent::RendezvousSettings;

constexpr const char* kConf = "--rdzv-conf: ";

/// torchrun's two backends have a name each for the same.
struct KeyNames {
  const char* etcd;
  const char* etcd_v2;
};
constexpr KeyNames kAuthorities{"cacert", "ca_cert"};
constexpr KeyNames kCertificate{"cert", "ssl_cert"};
constexpr KeyNames kKey{"key", "ssl_cert_key"};

/// Under the name that the user has typed, or would type.
LaunchResult<void> take_file(const LaunchOptions& options, const KeyNames& names,
                             rdzv::PemFile& file) {
  const bool is_v2 = options.rendezvous.backend == "etcd-v2";
  file.option = is_v2 ? names.etcd_v2 : names.etcd;
  const std::string other_name = is_v2 ? names.etcd : names.etcd_v2;
  const auto path = options.rendezvous.conf.value(file.option);
  const auto other = options.rendezvous.conf.value(other_name);
  if (path && other && *path != *other)
    return usage_error(kConf + file.option + "=" + *path + " and " + other_name + "=" + *other +
                       " mean the same; leave one out");
  if (path) {
    file.path = *path;
  } else if (other) {
    file = {other_name, *other};
  }
  return {};
}

LaunchResult<void> take_files(const LaunchOptions& options, rdzv::CertificateSettings& files) {
  if (const auto taken = take_file(options, kAuthorities, files.authorities); !taken)
    return taken.error();
  if (const auto taken = take_file(options, kCertificate, files.certificate); !taken)
    return taken.error();
  if (const auto taken = take_file(options, kKey, files.key); !taken) return taken.error();
  if (!files.key.path.empty() && files.certificate.path.empty())
    return usage_error(kConf + files.key.option + ": the certificate of that key is missing; add " +
                       files.certificate.option + "=FILE");
  files.trusts_system = true;
  files.allows_tls12 = true;
  files.where = " to --rdzv-conf";
  return {};
}

/// As under torchrun, a certificate's file may have its key, too.
LaunchResult<void> take_https(rdzv::CertificateSettings files, const Probes& probes,
                              LaunchPlan& plan, RendezvousSettings& settings) {
  const std::string key_name = files.key.option;
  const bool is_one_file = !files.certificate.path.empty() && files.key.path.empty();
  if (is_one_file) files.key = files.certificate;
  auto opened = probes.open_certificates(files);
  if (!opened)
    return usage_error(kConf + opened.error() +
                       (is_one_file ? "; without " + key_name +
                                          "=FILE that file must have the key, "
                                          "too"
                                    : ""));
  settings.etcd_access.encrypter = std::move(opened->encrypter);
  if (!opened->warning.empty()) plan.warnings.push_back(kConf + opened->warning);
  return {};
}

LaunchResult<void> take_protocol(const LaunchOptions& options, const Probes& probes,
                                 LaunchPlan& plan, RendezvousSettings& settings) {
  const std::string typed = options.rendezvous.conf.value("protocol").value_or("http");
  const std::string protocol = lower_case(typed);
  if (protocol != "http" && protocol != "https")
    return usage_error(kConf + ("protocol is http or https, not '" + typed + "'"));
  rdzv::CertificateSettings files;
  if (const auto taken = take_files(options, files); !taken) return taken.error();
  settings.etcd->is_encrypted = protocol == "https";
  if (settings.etcd->is_encrypted) return take_https(std::move(files), probes, plan, settings);
  for (const rdzv::PemFile* file : {&files.authorities, &files.certificate, &files.key})
    if (!file->path.empty())
      return usage_error(kConf + file->option + "=" + file->path +
                         " is for an etcd with TLS; add protocol=https, or leave it out");
  return {};
}

LaunchResult<void> take_user(const RdzvConf& conf, const Probes& probes, LaunchPlan& plan,
                             RendezvousSettings& settings) {
  rdzv::EtcdAccess& access = settings.etcd_access;
  access.words = {"etcd_user", "etcd_password_file", " in --rdzv-conf",
                  "add protocol=https to --rdzv-conf", "leave out protocol=https in --rdzv-conf"};
  const auto user = conf.value("etcd_user");
  const auto file = conf.value("etcd_password_file");
  if (user && !file)
    return usage_error(kConf + ("etcd_user=" + *user +
                                ": the password is missing; add etcd_password_file=FILE, a file "
                                "that only you can read"));
  if (file && !user)
    return usage_error(
        kConf + ("etcd_password_file=" + *file + ": the user is missing; add etcd_user=NAME"));
  if (!user) return {};
  auto password = probes.read_password(*file);
  if (!password) return usage_error(kConf + ("etcd_password_file: " + password.error()));
  access.user = *user;
  access.password = std::move(*password);
  if (rdzv::sends_in_clear(*settings.etcd))
    plan.warnings.push_back(kConf + ("etcd_user=" + *user +
                                     ": its password goes to etcd unencrypted; if etcd speaks "
                                     "TLS, add protocol=https"));
  return {};
}

}  // namespace

LaunchResult<void> plan_etcd(const LaunchOptions& options, const Probes& probes, LaunchPlan& plan,
                             RendezvousSettings& settings) {
  if (!options.rendezvous.endpoint) {
    return usage_error("--rdzv-backend=" + options.rendezvous.backend +
                       ": the address of etcd is missing; add --rdzv-endpoint=HOST:2379, or "
                       "several members: HOST:2379,HOST:2379,HOST:2379");
  }
  auto prefix = rdzv::parse_etcd_prefix(options.rendezvous.conf.value("etcd_prefix").value_or(""));
  if (!prefix) return usage_error(kConf + ("etcd_prefix: " + prefix.error()));
  rdzv::EtcdPlace& etcd = settings.etcd.emplace();
  etcd.prefix = std::move(*prefix);
  etcd.members = options.rendezvous.more_endpoints;
  etcd.members.insert(etcd.members.begin(), *options.rendezvous.endpoint);
  for (Endpoint& member : etcd.members) {
    if (!member.port) member.port = rdzv::kEtcdPort;
    if (member.port == 0)
      return usage_error("--rdzv-endpoint=" + to_string(member) + ": etcd has no port 0");
  }
  if (const auto taken = take_protocol(options, probes, plan, settings); !taken)
    return taken.error();
  return take_user(options.rendezvous.conf, probes, plan, settings);
}

}  // namespace ddprun::launcher
