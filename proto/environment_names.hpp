// The names of the environment variables that make up the contract with workers.
// Source: the behaviour of `torchrun` (PyTorch 2.x); the DDPRUN_ ones are our own.
#pragma once

namespace ddprun::proto::env {

inline constexpr const char* kRank = "RANK";
inline constexpr const char* kLocalRank = "LOCAL_RANK";
inline constexpr const char* kGroupRank = "GROUP_RANK";
inline constexpr const char* kRoleRank = "ROLE_RANK";
inline constexpr const char* kRoleName = "ROLE_NAME";
inline constexpr const char* kWorldSize = "WORLD_SIZE";
inline constexpr const char* kLocalWorldSize = "LOCAL_WORLD_SIZE";
inline constexpr const char* kGroupWorldSize = "GROUP_WORLD_SIZE";
inline constexpr const char* kRoleWorldSize = "ROLE_WORLD_SIZE";
inline constexpr const char* kMasterAddr = "MASTER_ADDR";
inline constexpr const char* kMasterPort = "MASTER_PORT";
inline constexpr const char* kRestartCount = "TORCHELASTIC_RESTART_COUNT";
inline constexpr const char* kMaxRestarts = "TORCHELASTIC_MAX_RESTARTS";
inline constexpr const char* kRunId = "TORCHELASTIC_RUN_ID";
/// `True` or `False`, Python's spelling.
inline constexpr const char* kUseAgentStore = "TORCHELASTIC_USE_AGENT_STORE";
inline constexpr const char* kErrorFile = "TORCHELASTIC_ERROR_FILE";
inline constexpr const char* kEvent = "DDPRUN_EVENT";  ///< ours, for the command of --on-event
inline constexpr const char* kEnableFileTimer = "TORCHELASTIC_ENABLE_FILE_TIMER";  ///< ours: `1`
/// A named pipe for torch's timers.
inline constexpr const char* kTimerFile = "TORCHELASTIC_TIMER_FILE";
inline constexpr const char* kSignalsToHandle = "TORCHELASTIC_SIGNALS_TO_HANDLE";
inline constexpr const char* kNcclAsyncErrorHandling = "TORCH_NCCL_ASYNC_ERROR_HANDLING";
inline constexpr const char* kOmpNumThreads = "OMP_NUM_THREADS";
inline constexpr const char* kCudaDeviceOrder = "CUDA_DEVICE_ORDER";
inline constexpr const char* kCudaVisibleDevices = "CUDA_VISIBLE_DEVICES";
inline constexpr const char* kGlooInterface = "GLOO_SOCKET_IFNAME";
inline constexpr const char* kPythonUnbuffered = "PYTHONUNBUFFERED";
inline constexpr const char* kPythonBreakpoint = "PYTHONBREAKPOINT";

inline constexpr const char* kRound = "DDPRUN_ROUND";  ///< number of the round, from 0
inline constexpr const char* kEpoch = "DDPRUN_EPOCH";  ///< rounds are numbered within it
/// The highest step that the lowest rank of the node has reported in earlier rounds; set if it has.
inline constexpr const char* kReachedStep = "DDPRUN_REACHED_STEP";
/// Rank of the worker whose state all others get; set if workers of the last round go on.
inline constexpr const char* kSourceRank = "DDPRUN_SOURCE_RANK";
/// World size with all nodes that may join; set if the number of nodes may change.
inline constexpr const char* kMaxWorldSize = "DDPRUN_MAX_WORLD_SIZE";
/// Abstract socket of the agent: `@ddprun/UID/RUNID`.
inline constexpr const char* kJobSocket = "DDPRUN_SOCKET";
/// Path where the worker may make its progress page.
inline constexpr const char* kProgressFile = "DDPRUN_PROGRESS_FILE";

}  // namespace ddprun::proto::env
