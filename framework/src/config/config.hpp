// SPDX-License-Identifier: Apache-2.0
// The typed configuration: one struct a section, beside it the one field table that drives parsing,
// dump, reference and schema (field_table.cpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trireme/options.hpp"

namespace trireme {

struct RunConfig {
  std::string name;            // default: the configuration's file name without .yaml
  std::string dir;             // the whole path of the run directory; default: runs/NAME
  std::int64_t seed = 0;       // >= 0
  std::string device = "cpu";  // cpu | cuda
  bool shared = true;          // all hosts see dir
  double timeout = 600;        // seconds a rank waits for the others; > 0
  double time_limit = 0;       // seconds from its start to its end; 0: none
  double time_margin = 120;    // seconds before the end, or a Slurm job's, at which it is stopped
};

struct ModelConfig {
  std::string name;              // required; a registered model
  std::string init = "default";  // default | xavier_uniform | kaiming_normal | normal
  double init_std = 0.02;        // of init: normal
  bool channels_last = false;
  std::string init_from;            // checkpoint, run directory or .safetensors; "": init alone
  bool init_strict = true;          // init_from fits in every name, shape and type
  std::vector<std::string> freeze;  // globs on parameter names: not trained
  Options options;                  // what the model declares
};

struct DataConfig {
  std::string name;           // required; a registered data set
  std::string path;           // file or folder; what it means is the data set's
  std::int64_t workers = 1;   // decoding threads a rank; >= 1
  std::int64_t prefetch = 2;  // micro-batches decoded ahead; >= 1
  bool shuffle = true;
  bool drop_last = false;  // leave out an incomplete last global batch
  // [0, 0.9]: this share of the training set is held out; "best" is chosen on it
  double validation_fraction = 0;
  std::vector<double> mean;   // [channel] of the pixel scaled to [0, 1], each in [0, 1]; empty: 0
  std::vector<double> std;    // [channel], each in (0, 1]; empty: 1
  std::string flip = "none";  // none | random | alternate (random once, mirrored in odd epochs)
  std::int64_t crop_padding = 0;   // random crop from an image padded by this many pixels; [0, 64]
  std::string crop_fill = "zero";  // zero | reflect
  Options options;                 // what the data set declares
};

// What one parameter group may set for itself; absent: as in OptimizerConfig.
struct GroupConfig {
  std::string match;  // required; glob on parameter names, first match wins
  bool frozen = false;
  std::optional<std::string> name;     // sgd | adam | adamw | muon
  std::optional<double> lr;            // >= 0
  std::optional<double> weight_decay;  // >= 0
  std::optional<double> momentum;      // [0, 1)
  std::optional<double> duration;  // the schedule's length for this group, in schedule.unit; > 0
  std::string origin;              // file:line:column, for messages; not a key
};

struct OptimizerConfig {
  std::string name;  // required: sgd | adam | adamw | muon
  double lr = 0;     // required; > 0
  double weight_decay = 0;
  double momentum = 0;    // sgd, muon; [0, 1)
  bool nesterov = false;  // sgd
  double beta1 = 0.9;     // adam, adamw; [0, 1)
  double beta2 = 0.999;
  double eps = 1e-8;            // adam, adamw; > 0
  std::int64_t muon_steps = 5;  // Newton-Schulz iterations; [1, 20]
  // Scale each weight to Frobenius norm sqrt(rows) before its update.
  bool muon_normalize_weights = false;
  std::vector<GroupConfig> groups;
};

struct ScheduleConfig {
  std::string name = "constant";   // constant | linear | step | cosine | one_cycle
  std::string unit = "epochs";     // of the lengths below: epochs | steps
  double warmup = 0;               // length of the linear rise from 0; >= 0
  double duration = 0;             // total length, warm-up included; 0: the whole run
  double final_fraction = 0;       // linear, cosine, one_cycle: last rate over optimizer.lr; [0, 1]
  double step_size = 0;            // step: length between drops; > 0 where name is step
  double gamma = 0.1;              // step: factor of each drop; (0, 1]
  double initial_fraction = 0.04;  // one_cycle: first rate over optimizer.lr; (0, 1]
  double peak = 0.3;               // one_cycle: where in duration the rate peaks; (0, 1)
};

struct LossConfig {
  std::string name = "cross_entropy";  // a registered loss
  std::string reduction = "mean";      // mean | sum over the global batch: what the gradient is of
  Options options;
};

struct MetricConfig {
  std::string name = "accuracy";  // a registered metric
};

struct TrainConfig {
  double epochs = 0;                // > 0 unless max_steps is set; a fraction stops inside an epoch
  std::int64_t max_steps = 0;       // 0: no limit
  std::int64_t global_batch = 0;    // required: samples an optimizer step, over all ranks
  std::int64_t micro_batch = 0;     // samples a forward on one rank; 0: the rank's whole share
  std::string precision = "fp32";   // fp32 | fp64
  double clip_norm = 0;             // global gradient norm; 0: off
  bool update_in_backward = false;  // each bucket as soon as it is summed; clip_norm is 0
  double eval_every_epochs = 1;     // 0: only at the end
  // Samples a forward in evaluation on one rank; 0: min(the rank's share of global_batch, 500)
  std::int64_t eval_batch = 0;
  // single | mirror | six (images: mirror and two one-pixel shifts, averaged outputs)
  std::string eval_views = "single";
  // Early stop after this many evaluations without improvement on the validation split; 0: off
  std::int64_t patience = 0;
};

struct ParallelConfig {
  // Size limit of a gradient bucket, 10^6 bytes; 0: from the measured link (powersgd: 25), and then
  // set
  double bucket_mb = 0;
  double edge_bucket_mb = 0;  // of the first and the last one to be reduced; 0: bucket_mb / 4
  // node | world: the ranks that share out the optimizer's state and work
  std::string shard_over = "node";
  std::string compression = "none";  // none | fp16 | bf16 | powersgd: of gradients between nodes
  bool error_feedback = false;       // fp16, bf16: what rounding takes off is added next time
  std::int64_t powersgd_rank = 4;    // powersgd; [1, 128]
  std::int64_t sync_every = 1;       // steps between averages of the nodes; 1: gradients are summed
  std::int64_t powersgd_start = 100;  // powersgd: the first step, from 0, that is compressed; >= 0
  bool sync_batch_norm = false;       // BatchNorm's statistics are those of all ranks' samples
};

// How MPI's messages travel. Ranks of a node share their gradients in memory, whatever stands here.
struct NetworkConfig {
  std::string transport = "auto";        // auto (Open MPI chooses) | ucx | tcp
  std::vector<std::string> interfaces;   // names or CIDR networks; empty: all
  std::int64_t rendezvous_bytes = 0;     // 0: the library's choice; else [1024, 2^30]
  std::string yield_when_idle = "auto";  // auto | always | never
  std::int64_t tcp_links = 0;            // connections a pair of ranks; 0: the library's choice
  std::int64_t tcp_send_buffer = 0;      // bytes a connection; 0: the kernel's choice
  std::int64_t tcp_receive_buffer = 0;   // bytes a connection; 0: the kernel's choice
  std::vector<std::string> ucx_tls;      // UCX's names of transports; empty: all
  std::vector<std::string> ucx_devices;  // "mlx5_0:1"; empty: all
  std::string ucx_rndv_scheme = "auto";  // auto | get_zcopy | put_zcopy
  std::int64_t ucx_gid_index = -1;       // -1: UCX's choice; else [0, 255]
  std::int64_t ucx_service_level = -1;   // -1: UCX's choice; else [0, 15]
};

struct CheckpointConfig {
  std::int64_t every_steps = 0;  // 0: only at the end, on a stop, and of the best
  std::int64_t keep = 2;         // newest ones kept; >= 1; the best is kept besides
};

struct LogConfig {
  std::int64_t every_steps = 1;          // step events in metrics.jsonl; >= 1
  std::int64_t ranks_every_steps = 100;  // the table of ranks; 0: at the end only
  double console_seconds = 5;            // at most one console line in this time; >= 0
};

struct Config {
  RunConfig run;
  ModelConfig model;
  DataConfig data;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  LossConfig loss;
  MetricConfig metric;
  TrainConfig train;
  ParallelConfig parallel;
  NetworkConfig network;
  CheckpointConfig checkpoint;
  LogConfig log;
};

}  // namespace trireme
