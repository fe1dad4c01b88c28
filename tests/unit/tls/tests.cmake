rlb_unit_test(tls/tls_tickets LINK rlb::tls)
set_tests_properties(unit.tls.tls_tickets PROPERTIES LABELS "unit;thread")
