foreach(noun error_body trace_log)
  rlb_unit_test(worker-agent/front/${noun} LINK rlb::agent)
endforeach()
set_tests_properties(unit.worker-agent.front.trace_log PROPERTIES LABELS "unit;thread")
