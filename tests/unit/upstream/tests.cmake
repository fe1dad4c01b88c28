foreach(noun conn_move conn_park conn_pool conn_pool_thread http1_client http1_client_conn http1_client_move http1_client_tls http_fetch)
  rlb_unit_test(upstream/${noun} LINK rlb::upstream)
endforeach()
set_tests_properties(unit.upstream.conn_move unit.upstream.conn_park unit.upstream.conn_pool unit.upstream.conn_pool_thread PROPERTIES LABELS "unit;thread")
