// By what the nodes of a job know each other, and what encrypts between them.

#include <utility>

#include <fmt/format.h>

#include "base/secret_file.hpp"
#include "base/shell_word.hpp"
#include "launcher/plan/plan_parts.hpp"

namespace ddprun::launcher {

namespace {

using agent::RendezvousSettings;

/// Slurm itself needs it on each node.
bool may_have_munge(const Environment& environment) {
  return lookup(environment, "SLURM_JOB_ID").has_value();
}

std::shared_ptr<proto::Credentials> munge_of(const LaunchOptions& options, const Probes& probes) {
  return probes.munge(options.rendezvous.conf.value("munge_socket").value_or(""));
}

void take_munge(const LaunchOptions& options, const Environment& environment, const Probes& probes,
                RendezvousSettings& settings) {
  settings.credentials = munge_of(options, probes);
  settings.needs_proof = options.rendezvous.auth == RdzvAuth::munge;
  settings.makes_secret = settings.needs_proof || may_have_munge(environment);
}

/// Nothing but --make-secret makes the folder of the default file. Whoever removes the file must
/// not turn the proofs off without a word.
void warn_of_lost_secret(const std::string& path, const Probes& probes, LaunchPlan& plan) {
  const std::string folder = path.substr(0, path.rfind('/'));
  if (folder.empty() || probes.files->look(folder).kind != FileInfo::Kind::folder) return;
  plan.warnings.push_back(
      fmt::format("the secret {} is missing, so this job runs without one; copy it there again, or "
                  "type rmdir {}",
                  path, shell_word(folder)));
}

LaunchResult<void> take_certificates(const LaunchOptions& options, const Probes& probes,
                                     LaunchPlan& plan, RendezvousSettings& settings) {
  rdzv::CertificateSettings files;
  files.authorities = {"--rdzv-tls-ca", options.rendezvous.tls_ca};
  files.certificate = {"--rdzv-tls-cert", options.rendezvous.tls_cert};
  files.key = {"--rdzv-tls-key", options.rendezvous.tls_key};
  auto opened = probes.open_certificates(files);
  if (!opened) return usage_error(opened.error());
  settings.encrypter = std::move(opened->encrypter);
  if (!opened->warning.empty()) plan.warnings.push_back(std::move(opened->warning));
  return {};
}

}  // namespace

LaunchResult<void> take_secret(const LaunchOptions& options, const Environment& environment,
                               const Probes& probes, LaunchPlan& plan,
                               RendezvousSettings& settings) {
  constexpr std::string_view kRemedy =
      "make one with ddprun --make-secret and copy it to each node";
  if (options.rendezvous.auth == RdzvAuth::munge) {
    if (!options.rendezvous.secret_file.empty())
      return usage_error(
          "--rdzv-auth=munge and --rdzv-secret-file=" + options.rendezvous.secret_file +
          " exclude each other: with MUNGE a job needs no secret; leave one out");
    take_munge(options, environment, probes, settings);
    return {};
  }
  settings.needs_proof = options.rendezvous.auth == RdzvAuth::required;
  const std::string path = secret_path(options, environment);
  const FileInfo file = path.empty() ? FileInfo{} : probes.files->look(path);
  const bool exists = file.kind != FileInfo::Kind::absent || !file.link_target.empty();
  if (exists || !options.rendezvous.secret_file.empty()) {
    auto secret = probes.read_secret(path);
    if (!secret) return usage_error(secret.error());
    settings.secret = std::move(*secret);
    // Any program that can write to etcd could lead the node to a rendezvous without it.
    if (settings.etcd) settings.needs_proof = true;
    // A rendezvous on a node without the file may have MUNGE.
    if (!settings.needs_proof) settings.credentials = munge_of(options, probes);
    return {};
  }
  if (settings.needs_proof) {
    return usage_error(fmt::format("--rdzv-auth=required: there is no secret{}{}; {}",
                                   path.empty() ? "" : " in ", path, kRemedy));
  }
  warn_of_lost_secret(path, probes, plan);
  take_munge(options, environment, probes, settings);
  return {};
}

/// Without certificates the key comes from the secret.
LaunchResult<void> take_tls(const LaunchOptions& options, const Probes& probes, LaunchPlan& plan,
                            RendezvousSettings& settings) {
  if (!options.rendezvous.tls) return {};
  if (!options.rendezvous.tls_ca.empty()) return take_certificates(options, probes, plan, settings);
  if (settings.secret.empty())
    return usage_error(
        "--rdzv-tls: the key comes from the job's secret, and there is none; make one with ddprun "
        "--make-secret and copy it to each node, or use certificates: --rdzv-tls-ca=FILE");
  auto opened = probes.open_tls();
  if (!opened) return usage_error("--rdzv-tls: " + opened.error());
  settings.encrypter = std::move(*opened);
  settings.needs_proof = true;  // no connection opens without it
  return {};
}

std::string secret_path(const LaunchOptions& options, const Environment& environment) {
  if (!options.rendezvous.secret_file.empty()) return options.rendezvous.secret_file;
  return default_secret_path(lookup(environment, "XDG_CONFIG_HOME"), lookup(environment, "HOME"));
}

}  // namespace ddprun::launcher
