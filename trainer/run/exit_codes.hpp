// How `train` ends, for launchers and scripts.
#pragma once

namespace ddprun::trainer {

inline constexpr int kExitSuccess = 0;
/// Something failed while training: an error of ours, or the last state could not be written.
inline constexpr int kExitFailure = 1;
/// The command line, the environment, the data or a checkpoint cannot be used. Nothing was started.
inline constexpr int kExitUsage = 2;
/// Another rank is gone or does not answer, and this one gave up because of that; or a call of a
/// GPU's driver or library did not return, which may have either reason. The value is EX_TEMPFAIL
/// of sysexits.h: the same command may well succeed when started again. For ddprun such a rank is a
/// victim, unless nothing else explains the end.
inline constexpr int kExitPeerLost = 75;
/// + n: signal n asked it to end.
inline constexpr int kExitSignalBase = 128;

}  // namespace ddprun::trainer
