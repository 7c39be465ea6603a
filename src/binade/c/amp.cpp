#include "binade/amp/autocast.h"

#include "binade/amp/grad_scaler.h"
#include "binade/c/handles.h"
#include "binade/c/optimizer.h"

struct bnd_autocast {
  binade::amp::Autocast guard;
};
struct bnd_scaler {
  binade::amp::GradScaler value;
};

using namespace binade;
using namespace binade::c;

extern "C" {

bnd_status bnd_autocast_begin(bnd_dtype dtype, int enabled, bnd_autocast** result) {
  return guarded([&] {
    checked(result, "bnd_autocast_begin", "result");
    *result = new bnd_autocast{amp::Autocast(type_of(dtype), {.enabled = enabled != 0})};
  });
}

void bnd_autocast_end(bnd_autocast* guard) { delete guard; }

bnd_scaler_options bnd_scaler_defaults(void) {
  const amp::GradScalerOptions options;
  return {.init_scale = options.init_scale,
          .growth_factor = options.growth_factor,
          .backoff_factor = options.backoff_factor,
          .growth_interval = options.growth_interval,
          .enabled = options.enabled,
          .device = code_of(options.device)};
}

bnd_status bnd_scaler_new(const bnd_scaler_options* options, bnd_scaler** result) {
  return guarded([&] {
    const bnd_scaler_options given = options ? *options : bnd_scaler_defaults();
    checked(result, "bnd_scaler_new", "result");
    *result = new bnd_scaler{amp::GradScaler({.enabled = given.enabled != 0,
                                              .init_scale = given.init_scale,
                                              .growth_factor = given.growth_factor,
                                              .backoff_factor = given.backoff_factor,
                                              .growth_interval = given.growth_interval,
                                              .device = device_of(given.device)})};
  });
}

void bnd_scaler_free(bnd_scaler* scaler) { delete scaler; }

bnd_status bnd_scaler_scale(bnd_scaler* scaler, const bnd_tensor* loss, bnd_tensor** result) {
  return giving("bnd_scaler_scale", result, [&] {
    return checked(scaler, "bnd_scaler_scale", "scaler")
        .value.scale(tensor_of(loss, "bnd_scaler_scale"));
  });
}

bnd_status bnd_scaler_unscale(bnd_scaler* scaler, bnd_optimizer* optimizer) {
  return guarded([&] {
    checked(scaler, "bnd_scaler_unscale", "scaler")
        .value.unscale(*checked(optimizer, "bnd_scaler_unscale", "optimizer").value);
  });
}

bnd_status bnd_scaler_step(bnd_scaler* scaler, bnd_optimizer* optimizer, int* applied) {
  return guarded([&] {
    const amp::StepReport report =
        checked(scaler, "bnd_scaler_step", "scaler")
            .value.step(*checked(optimizer, "bnd_scaler_step", "optimizer").value);
    if (applied) *applied = report.applied() ? 1 : 0;
  });
}

bnd_status bnd_scaler_update(bnd_scaler* scaler) {
  return guarded([&] { checked(scaler, "bnd_scaler_update", "scaler").value.update(); });
}

bnd_status bnd_scaler_get_scale(const bnd_scaler* scaler, double* scale) {
  return guarded([&] {
    checked(scale, "bnd_scaler_get_scale", "scale") =
        checked(scaler, "bnd_scaler_get_scale", "scaler").value.get_scale();
  });
}
}
