foreach(noun advertise budget classify ejection_rule error_page header_rules methods peer_line poison provider_limits worker_call)
  rlb_unit_test(lb/rules/${noun} LINK rlb::lb)
endforeach()
set_tests_properties(unit.lb.rules.advertise unit.lb.rules.poison unit.lb.rules.budget PROPERTIES LABELS "unit;thread")
