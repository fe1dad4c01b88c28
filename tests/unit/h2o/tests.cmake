rlb_unit_test(h2o/priority_tree LINK rlb::h2o)
