# rlb::pool: cut out of lb, as the simulator, the replay tool and the tests drive it too.
rlb_module(pool
  SOURCES pool.c pool_called.c pool_classless.c pool_cost.c pool_explain.c pool_hash.c pool_look.c pool_p2c.c pool_policy.c pool_resume.c
    pool_round_robin.c pool_shadow.c pool_shadow_time.c pool_skills.c pool_version.c pool_view.c pool_wait.c worker.c
    pool_adaptive.c pool_adaptive_explain.c homes.c homes_fading.c homes_hand_over.c homes_heap.c homes_load.c homes_pairs.c homes_rule.c homes_shared.c homes_view.c
  LINK rlb::base rlb::core Threads::Threads m)
