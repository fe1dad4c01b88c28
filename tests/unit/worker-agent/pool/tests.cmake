foreach(noun host_settings pool_core pool_core_turns restart_watch resume_store slot_meter)
  rlb_unit_test(worker-agent/pool/${noun} LINK rlb::agent)
endforeach()
set_tests_properties(unit.worker-agent.pool.restart_watch unit.worker-agent.pool.resume_store PROPERTIES LABELS "unit;thread")
